//! A record of the kernel log, and its text form.
//!
//! The form is that of `/dev/kmsg`, `prio,seq,usec,flags[,caller=…];text`, then ` KEY=value` lines; control characters, bytes above 126 and
//! backslashes are written as `\xNN`. The stamp is finer, because memory has nanoseconds: it is written as `usec.nnn`
//! (`6,12,345678.901,-,caller=T1;text`).

/// The thread or, in interrupts, the CPU that a record came from, as the kernel packs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller(pub u32);

/// A record of the kernel log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The kernel's sequence number, from 0; for kernels before 5.10, counted from the oldest record that is left.
    pub seq: u64,
    /// The kernel's stamp in nanoseconds; 0 while its clock does not run yet.
    pub ts_ns: u64,
    /// syslog facility; 0 is the kernel's own.
    pub facility: u8,
    /// syslog level, 0 (emergency) to 7 (debug).
    pub level: u8,
    /// True if it continues the line before it.
    pub continues: bool,
    /// The thread or CPU that printed it, if the kernel records it.
    pub caller: Option<Caller>,
    /// The message as in memory: any bytes.
    pub text: Vec<u8>,
    /// `KEY=value` of the device that it is about.
    pub dict: Vec<Vec<u8>>,
}

impl Record {
    /// Appends the record in `/dev/kmsg`'s form.
    pub fn write_kmsg(&self, out: &mut Vec<u8>) {
        let prio = u32::from(self.facility) << 3 | u32::from(self.level);
        let (usec, rest_ns) = (self.ts_ns / 1000, self.ts_ns % 1000);
        let flags = if self.continues { 'c' } else { '-' };
        out.extend_from_slice(format!("{prio},{},{usec}.{rest_ns:03},{flags}", self.seq).as_bytes());
        if let Some(Caller(id)) = self.caller {
            let kind = if id >> 31 == 1 { 'C' } else { 'T' };
            out.extend_from_slice(format!(",caller={kind}{}", id & !(1 << 31)).as_bytes());
        }
        out.push(b';');
        write_escaped(&self.text, out);
        out.push(b'\n');
        for pair in &self.dict {
            out.push(b' ');
            write_escaped(pair, out);
            out.push(b'\n');
        }
    }
}

fn write_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        if (b' '..127).contains(&byte) && byte != b'\\' {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_dev_kmsg_with_nanoseconds() {
        let record = Record {
            seq: 12,
            ts_ns: 345_678_901,
            facility: 1,
            level: 6,
            continues: false,
            caller: Some(Caller(1)),
            text: b"pci 0000:00:01.0: \x1b[1m\\two\nlines \xff".to_vec(),
            dict: vec![b"SUBSYSTEM=pci".to_vec()],
        };
        let mut out = Vec::new();
        record.write_kmsg(&mut out);
        let on_cpu = Record { caller: Some(Caller(1 << 31 | 3)), continues: true, dict: vec![], ts_ns: 7, ..record };
        on_cpu.write_kmsg(&mut out);
        let text = String::from_utf8(out).unwrap();
        let expected = r"14,12,345678.901,-,caller=T1;pci 0000:00:01.0: \x1b[1m\x5ctwo\x0alines \xff
 SUBSYSTEM=pci
14,12,0.007,c,caller=C3;pci 0000:00:01.0: \x1b[1m\x5ctwo\x0alines \xff
";
        assert_eq!(text, expected);
    }
}
