//! Removes the protocol of terminal servers (telnet, RFC 854) from their output: negotiation, which is always refused (RFC 855), doubled
//! 0xFF, and the NUL after a carriage return. The output arrives in pieces that may be cut anywhere.

const IAC: u8 = 255;
const DONT: u8 = 254;
const DO: u8 = 253;
const WONT: u8 = 252;
const WILL: u8 = 251;
const SUBNEGOTIATION: u8 = 250;
const SUBNEGOTIATION_END: u8 = 240;

/// The meaning of the next byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Text,
    AfterReturn,
    Command,
    /// The option of a command with this verb.
    Option(u8),
    Parameter,
    ParameterCommand,
}

/// A decoder for the output of a terminal server.
#[derive(Debug)]
pub(super) struct Telnet {
    next: Next,
    /// The options already refused: first those that the server requests, then those that it offers. Each is refused once. Otherwise two
    /// sides that refuse would go on for ever.
    refused: [[bool; 256]; 2],
}

impl Default for Telnet {
    fn default() -> Self {
        Telnet { next: Next::Text, refused: [[false; 256]; 2] }
    }
}

impl Telnet {
    /// Decodes bytes. Returns the board's output, and the reply to the server.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut text, mut replies) = (Vec::with_capacity(bytes.len()), Vec::new());
        for &byte in bytes {
            self.next = match (self.next, byte) {
                (Next::AfterReturn, 0) => Next::Text,
                (Next::Text | Next::AfterReturn, IAC) => Next::Command,
                (Next::Text | Next::AfterReturn, _) | (Next::Command, IAC) => {
                    text.push(byte);
                    if byte == b'\r' { Next::AfterReturn } else { Next::Text }
                }
                (Next::Command, WILL | WONT | DO | DONT) => Next::Option(byte),
                (Next::Command, SUBNEGOTIATION) => Next::Parameter,
                (Next::Command, _) => Next::Text,
                (Next::Option(verb), option) => {
                    replies.extend(self.refusal(verb, option).into_iter().flatten());
                    Next::Text
                }
                (Next::Parameter, IAC) => Next::ParameterCommand,
                (Next::ParameterCommand, SUBNEGOTIATION_END) => Next::Text,
                (Next::Parameter | Next::ParameterCommand, _) => Next::Parameter,
            };
        }
        (text, replies)
    }

    fn refusal(&mut self, verb: u8, option: u8) -> Option<[u8; 3]> {
        let (side, answer) = match verb {
            DO => (0, WONT),
            WILL => (1, DONT),
            // WONT and DONT need no reply: the option is already off.
            _ => return None,
        };
        let refused = &mut self.refused[side][usize::from(option)];
        (!std::mem::replace(refused, true)).then_some([IAC, answer, option])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the result is the same for all bytes at once and byte by byte.
    fn check(sent: &[u8], text: &[u8], replies: &[u8]) {
        assert_eq!(Telnet::default().take(sent), (text.to_vec(), replies.to_vec()), "{sent:?} at once");
        let (mut telnet, mut all) = (Telnet::default(), (Vec::new(), Vec::new()));
        for byte in sent.chunks(1) {
            let (text, replies) = telnet.take(byte);
            all.0.extend(text);
            all.1.extend(replies);
        }
        assert_eq!(all, (text.to_vec(), replies.to_vec()), "{sent:?} byte by byte");
    }

    #[test]
    fn options_are_refused_once_and_removed() {
        check(b"U-Boot 2024.01\r\nlogin: ", b"U-Boot 2024.01\r\nlogin: ", b"");
        check(b"a\xff\xfb\x01b\xff\xfd\x18c", b"abc", b"\xff\xfe\x01\xff\xfc\x18");
        check(b"\xff\xfb\x01\xff\xfb\x01\xff\xfd\x01", b"", b"\xff\xfe\x01\xff\xfc\x01");
        check(b"\xff\xfc\x01\xff\xfe\x01x", b"x", b"");
    }

    #[test]
    fn doubled_bytes_returns_and_parameters() {
        check(b"\xff\xff\xff\xff", b"\xff\xff", b"");
        check(b"a\r\0b\r\n\0", b"a\rb\r\n\0", b"");
        check(b"\r\xff\xff\r\xff\xf1\0", b"\r\xff\r\0", b"");
        check(b"a\xff\xfa\x18\x01\xff\xffq\xff\xf0b\xff\xf9c", b"abc", b"");
    }
}
