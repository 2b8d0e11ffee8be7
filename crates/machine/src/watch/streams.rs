//! Writes the streams of a recording that grow while a machine runs, one for each source.

use recording::{Stream, Writer};

use crate::Error;
use crate::guest_channel::GuestChannel;
use crate::options::RecordOptions;
use crate::refusal::{Words, text};
use crate::vmm::Source;
use recording::Field;

/// A stream with its source and name.
struct NamedStream {
    source: Source,
    name: &'static str,
    stream: Stream,
}

/// The streams, one for each recorded source.
pub(super) struct Streams(Vec<NamedStream>);

impl Streams {
    /// Begins the streams. `channel` is the guest's, if it has one.
    pub(super) fn begin(
        options: &RecordOptions,
        words: Words,
        vmm: &str,
        firmware: Option<u16>,
        channel: Option<&dyn GuestChannel>,
        writer: &mut Writer,
    ) -> Result<Streams, Error> {
        let vmm = match options.guest.target.board() {
            Some(_) => text!["what ", Field::PowerCycle, " printed"].in_words(words).to_string(),
            None => format!("{vmm}'s standard output and error"),
        };
        let firmware = firmware.map(|port| format!("the firmware's debug port {port:#x}"));
        let all = [
            (Source::Console, "console", Some("the serial console")),
            (Source::Guest, "guest", channel.map(GuestChannel::origin)),
            (Source::Vmm, recording::VMM_STREAM, Some(vmm.as_str())),
            (Source::Firmware, "firmware", firmware.as_deref()),
        ];
        let mut streams = Vec::new();
        for (source, name, origin) in all {
            if let Some(origin) = origin {
                let stream = writer.stream(name, origin, options.observe.stream_bytes_max)?;
                streams.push(NamedStream { source, name, stream });
            }
        }
        Ok(Streams(streams))
    }

    /// Appends output, if its source is recorded.
    pub(super) fn append(&mut self, source: Source, bytes: &[u8], at_ns: i64) -> Result<(), recording::Error> {
        match self.0.iter_mut().find(|named| named.source == source) {
            Some(named) => named.stream.append(bytes, at_ns),
            None => Ok(()),
        }
    }

    /// The bytes of output of all sources.
    pub(super) fn total_bytes(&self) -> u64 {
        self.0.iter().map(|named| named.stream.total_bytes()).sum()
    }

    /// Ends all streams. Returns the name of each, and the number of its bytes that were not kept, or the error of writing it.
    pub(super) fn finish(self) -> impl Iterator<Item = (&'static str, Result<u64, recording::Error>)> {
        self.0.into_iter().map(|named| (named.name, named.stream.finish().map(|end| end.dropped_bytes)))
    }
}
