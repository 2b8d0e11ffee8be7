//! Parts of a log: one without its end, the loader's alone, the process table alone, logs cut anywhere, impossible
//! ticks.

use super::{check, made, spans};
use timeline::{EndEvidence, LogEnd, Ns, ProcessNamed, ProcessOf, Warning};

/// The log of FreeBSD's loader alone, from a boot whose kernel does not log.
#[test]
fn a_loaders_log_alone_is_a_part_of_a_boot() {
    let t = check(
        "0x0 1000 ENTER loader\n0x0 1100 ENTER cons_probe\n0x0 5100 EXIT cons_probe\n0x0 6000 ENTER open /boot\n\
         0x0 7000 ENTER efipart_readwrite\n0x0 8000 EXIT efipart_readwrite\n",
        &[("entry-without-exit", 2, "4")],
    );
    let end = t.end.unwrap();
    let loader = t.tracks.iter().find(|(_, track)| t.names.get(track.name) == "loader").unwrap().0;
    assert_eq!((end.at, end.track), (Ns(7000), Some(loader)));
    assert_eq!(end.evidence, EndEvidence::LogEnds(t.names.find("EXIT efipart_readwrite").unwrap()));
    assert_eq!(
        t.warnings,
        [Warning::LogOfLoaderAlone(LogEnd {
            at: Ns(7_000),
            record: "EXIT efipart_readwrite".to_owned(),
            thread: 0,
            open: vec!["loader".to_owned(), "open /boot".to_owned()],
        })]
    );
    assert_eq!(
        spans(&t),
        [
            "loader: loader 0..7000",
            "loader: cons_probe 100..4100",
            "loader: open /boot 5000..7000",
            "loader: efipart_readwrite 6000..7000"
        ]
    );
}

/// A process table alone is the part of the boot after the kernel's. It lasts as long as rc runs.
#[test]
fn a_process_table_alone_is_a_part_of_a_boot() {
    let table = "0 0 0 0 \"\" \"\"\n1 0 1000 0 \"/sbin/init\" \"/dev/console\"\n15 1 50000 950000 \"sh\" \"/dev/console\"\n\
                 16 15 60000 160000 \"hostname\" \"/x\"\n17 15 200000 500000 \"\" \"/etc/rc.d/netif\"\n\
                 18 17 250000 400000 \"ifconfig\" \"\"\n19 15 300000 0 \"daemon\" \"\"\n20 15 450000 600000 \"sort\" \"\"\n\
                 21 1 960000 0 \"getty\" \"\"\n";
    let t = check(table, &[]);
    let end = t.end.unwrap();
    let rc = ProcessOf { pid: 15, name: t.names.find("/etc/rc").unwrap() };
    assert_eq!((end.at, end.evidence), (Ns(900_000), EndEvidence::Exited(rc)));
    assert_eq!(t.names.get(t.tracks.get(end.track.unwrap()).name), "/etc/rc");
    assert_eq!(
        t.warnings,
        [Warning::ProcessTableAlone { zero: Some(ProcessNamed { pid: 15, name: Some("/etc/rc".to_owned()) }) }]
    );
    let owners: Vec<String> = analysis::boot_path(&t)
        .stretches
        .iter()
        .map(|s| format!("{} {}..{}", t.names.get(t.tracks.get(s.owner().track).name), s.from.0, s.to.0))
        .collect();
    // A parent waits for its children one after the other, but not for a child that outlives it.
    assert_eq!(
        owners,
        [
            "/etc/rc 0..10000",
            "hostname 10000..110000",
            "/etc/rc 110000..150000",
            "/etc/rc.d/netif 150000..200000",
            "ifconfig 200000..350000",
            "/etc/rc.d/netif 350000..450000",
            "sort 450000..550000",
            "/etc/rc 550000..900000",
        ]
    );
    // While rc runs, the end is its last known activity.
    let t = check(&table.replace("50000 950000", "50000 0"), &[]);
    let end = t.end.unwrap();
    assert_eq!(end.at, Ns(910_000));
    let rc = ProcessOf { pid: 15, name: t.names.find("/etc/rc").unwrap() };
    assert_eq!(end.evidence, EndEvidence::TableEndsBeforeExit(rc));
    // Without a process whose parent is 1, there is still a path.
    let t = check("3 0 1000 0 \"\" \"\"\n4 3 2000 3000 \"sh\" \"\"\n", &[]);
    assert_eq!((t.end.unwrap().at, t.end.unwrap().track.is_some()), (Ns(2000), true));
}

/// Every part of a log has a path that covers it.
#[test]
fn a_log_cut_anywhere_has_a_path() {
    let loader = "0x0 5000 ENTER loader\n0x0 6000 ENTER open /a\n0x0 7000 EXIT open\n0x0 9000 EXIT loader\n";
    let kernel = "0xff 100 ENTER hammer_time\n0xff 200 EXIT hammer_time\n0xff 300 ENTER mi_startup\n0xee 310 THREAD usb\n\
         0xee 320 EVENT HOLD root mount\n0xff 400 ENTER SYSINIT cpu\n0xff 410 ENTER DELAY\n0xff 490 EXIT DELAY\n\
         0xff 500 EXIT SYSINIT cpu\n0xee 550 ENTER usb_explore\n0xff 600 EXIT mi_startup\n0xdd 700 ENTER start_init\n\
         0xdd 710 EVENT WAIT root mount\n0xdd 711 ENTER _sleep\n0xee 715 EXIT usb_explore\n0xee 716 EVENT RELEASE root mount\n\
         0xdd 717 EXIT _sleep\n0xdd 718 EVENT UNWAIT root mount\n0xdd 720 ENTER VFS_MOUNT zfs\n0xdd 800 EXIT VFS_MOUNT zfs\n\
         0xdd 900 EXIT start_init\n0xee 950 ENTER usb_explore\n";
    let users = "1 0 650 0 \"/sbin/init\" \"\"\n15 1 950 990 \"sh\" \"\"\n16 15 960 970 \"hostname\" \"\"\n";
    let all: Vec<&str> = [loader, kernel, users].iter().flat_map(|part| part.split_inclusive('\n')).collect();
    for from in 0..all.len() {
        for to in from + 1..=all.len() {
            let text = all[from..to].concat();
            let t = made(&text);
            let path = analysis::boot_path(&t);
            let covered: Ns = path.stretches.iter().map(|s| s.length()).sum();
            let total = analysis::total(&t);
            assert_eq!(covered, total, "{text}");
            let tables = analysis::tables(&t, &path, &analysis::phases(&t), &analysis::Groups::freebsd());
            for rows in [&tables.wheres, &tables.functions] {
                assert_eq!(rows.iter().map(|row| row.self_time).sum::<Ns>(), total, "{text}");
            }
            let is_whole = text.contains("EXIT start_init") && text.contains("ENTER loader");
            assert!(is_whole || total == Ns::ZERO || !t.warnings.is_empty() || from > 0, "{text}");
        }
    }
}

/// A tick that no counter reaches does not show when its record was logged. One diagnostic reports it.
#[test]
fn ticks_out_of_range_are_not_times() {
    let max = u64::MAX;
    let text = format!("0x10 0 ENTER mi_startup\n0x10 1 ENTER start_init\n0x10 {max} EXIT start_init\n");
    let out = "tslog-tick-out-of-range";
    let t = check(&text, &[(out, 1, "3"), ("entry-without-exit", 1, "1")]);
    let end = t.end.unwrap();
    assert_eq!((end.at, end.track.is_some()), (Ns(1), true));
    // A log that begins at such ticks.
    let high = format!("0x10 {} ENTER mi_startup\n0x10 {} EXIT mi_startup\n", max - 9, max - 2);
    assert_eq!(spans(&check(&high, &[])), ["thread0: mi_startup 0..7"]);

    // One such record among many: the counter did not restart after it.
    let calls: Vec<String> = (10..30).map(|i| format!("0x1 {i}0 ENTER f{i}\n0x1 {i}5 EXIT f{i}\n")).collect();
    let wild = format!("0x1 {max} EVENT a 1\n");
    for at in 0..calls.len() {
        let log = [&calls[..at], std::slice::from_ref(&wild), &calls[at..]].concat().concat();
        let line = (2 * at + 1).to_string();
        let t = check(&log, &[(out, 1, &line)]);
        assert_eq!((t.end.unwrap().at, t.spans.len()), (Ns(195), 20), "{at}");
        assert!(t.spans.iter().all(|(_, s)| s.length() == Ns(5)), "{at}: {:?}", spans(&t));
    }

    let users = format!("1 0 110 0 \"/sbin/init\" \"\"\n15 1 {max} 0 \"sh\" \"\"\n16 1 120 {max} \"sh\" \"\"\n");
    let t = check(&format!("{}{users}", calls.concat()), &[("process-tick-out-of-range", 2, "42")]);
    assert_eq!(t.processes.len(), 1);
}
