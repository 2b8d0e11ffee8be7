//! Writes a made-up boot in every format to a folder: `sample FOLDER [SPANS]`. The checks by other programs
//! read these files; with a number of spans it prints how long each format takes.

#[path = "../tests/sample/mod.rs"]
mod sample;

use report::{Boot, ConsoleLine, FORMATS, Summary};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;
use timeline::{Ns, Warning};

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().expect("usage: sample FOLDER [SPANS]"));
    let spans: Option<usize> = args.next().map(|n| n.parse().expect("SPANS is a number"));
    std::fs::create_dir_all(&folder)?;
    let mut timeline = spans.map_or_else(sample::timeline, sample::large);
    timeline.warnings.push(Warning::RecordingUnknown {
        why: timeline::ManifestFault::Damaged { found: "\x1b[31m is no manifest".to_owned() },
    });
    let facts = sample::facts();
    let begun = Instant::now();
    let boot = Boot::new(&timeline, &facts);
    let took = |what: &str, begun: Instant, bytes: u64| {
        if spans.is_some() {
            println!("{what:<20} {:>9.1} ms {:>12} bytes", begun.elapsed().as_secs_f64() * 1e3, bytes);
        }
    };
    took("analysis", begun, 0);
    for format in FORMATS {
        let begun = Instant::now();
        let path = folder.join(format!("{}.{}", format.name(), format.extension()));
        let mut out = BufWriter::new(File::create(&path)?);
        format.write(&boot, &mut out)?;
        out.flush()?;
        took(format.name(), begun, path.metadata()?.len());
    }
    let begun = Instant::now();
    let path = folder.join("page.html");
    let mut out = BufWriter::new(File::create(&path)?);
    report::page(&boot, &console(), &mut out)?;
    out.flush()?;
    took("page", begun, path.metadata()?.len());
    std::fs::write(folder.join("show.json"), Summary::of(&boot).to_json())
}

/// Lines with stamps, and all that a guest can do to whoever shows its console.
fn console() -> Vec<ConsoleLine<'static>> {
    let mut lines: Vec<ConsoleLine> = (0..400)
        .map(|i| ConsoleLine {
            at: Some(Ns::from_us(90_000 + i * 2_100)),
            text: b"[    0.000000] Linux version 6.1.0-47-cloud-amd64",
        })
        .collect();
    lines.push(ConsoleLine { at: None, text: sample::HOSTILE.as_bytes() });
    lines.push(ConsoleLine {
        at: None,
        text: b"\xff\xfe not text \x1b]0;title\x07 </div></main><script>ran=3</script> \"><svg onload=ran=4>",
    });
    lines.push(ConsoleLine {
        at: None,
        text: b"-->]]></style><style>*{display:none}</style><iframe src=javascript:ran=5>\tafter a tab",
    });
    lines
}
