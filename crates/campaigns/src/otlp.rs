//! Sends a boot to an OpenTelemetry collector: OTLP over HTTP, as JSON.
//!
//! It uses plain HTTP/1.1 to one host, since a collector listens on the machine or in the cluster. There is no TLS: the
//! user's own collector can forward with TLS. Each wait and each answer is bounded.

use anyhow::{Context, bail};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The default port of OTLP over HTTP.
const PORT: u16 = 4318;
/// The longest wait for a collector.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// The most bytes read from an answer.
const MAX_ANSWER_BYTES: u64 = 1 << 16;
/// The most characters printed from an answer.
const MAX_SHOWN_CHARACTERS: usize = 300;

/// The address of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The value of the `Host` header.
    host: String,
    name: String,
    port: u16,
    /// The path before `/v1/…`, without a slash at its end.
    path: String,
}

/// Parses an address such as `http://localhost:4318`.
pub fn endpoint(text: &str) -> Result<Endpoint, String> {
    let Some(rest) = text.strip_prefix("http://") else {
        return Err("give http://HOST:PORT; there is no TLS here: send it to a collector of yours, which passes it on"
            .to_owned());
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_graphic());
    if host.is_empty() || host.contains('@') || !is_plain(rest) {
        return Err("it names no host: give http://HOST:PORT".to_owned());
    }
    // An IPv6 address is in brackets.
    let (name, port) = match host.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((name, port)) => (name, port.parse().map_err(|_| format!("{port} is no port"))?),
        None => (host, PORT),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(Endpoint { host: host.to_owned(), name, port, path: path.trim_end_matches('/').to_owned() })
}

/// The path for each signal, in the order of the lines in the format.
pub const SIGNALS: [&str; 2] = ["/v1/traces", "/v1/metrics"];

impl Endpoint {
    /// Sends one document. Returns the collector's remark, if its answer has more than the acceptance.
    ///
    /// # Errors
    /// If the collector cannot be reached or refuses.
    pub fn post(&self, signal: &str, json: &str) -> anyhow::Result<Option<String>> {
        let to = format!("http://{}{}{signal}", self.host, self.path);
        let answer = self.answer(signal, json).with_context(|| format!("cannot send to {to}"))?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
        let shown: String = report::harmless(body.trim()).chars().take(MAX_SHOWN_CHARACTERS).collect();
        match status {
            Some(200..=299) => Ok(body.contains("rejected").then_some(shown)),
            Some(status) => {
                bail!("{to} answers {status}: {shown}; is it an OTLP receiver for HTTP, and is {signal} switched on?")
            }
            None => bail!(
                "{to} does not answer as HTTP; OTLP over gRPC has another port: give that of HTTP, usually {PORT}"
            ),
        }
    }

    fn answer(&self, signal: &str, json: &str) -> anyhow::Result<Vec<u8>> {
        let addresses = (self.name.as_str(), self.port).to_socket_addrs()?;
        let mut tried = anyhow::anyhow!("{} has no address", self.name);
        for address in addresses {
            let mut stream = match TcpStream::connect_timeout(&address, MAX_WAIT) {
                Ok(stream) => stream,
                Err(e) => {
                    tried = e.into();
                    continue;
                }
            };
            stream.set_read_timeout(Some(MAX_WAIT))?;
            stream.set_write_timeout(Some(MAX_WAIT))?;
            write!(
                stream,
                "POST {}{signal} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                 User-Agent: bootscope/{}\r\nConnection: close\r\n\r\n",
                self.path,
                self.host,
                json.len(),
                env!("CARGO_PKG_VERSION")
            )?;
            stream.write_all(json.as_bytes())?;
            let mut answer = Vec::new();
            stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
            return Ok(answer);
        }
        Err(tried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_a_port_and_what_stands_before_the_signals() {
        let read = |text: &str| endpoint(text).map(|e| (e.name, e.port, e.path));
        let of = |name: &str, port, path: &str| Ok((name.to_owned(), port, path.to_owned()));
        assert_eq!(read("http://localhost:4318"), of("localhost", 4318, ""));
        assert_eq!(read("http://otel/in/"), of("otel", 4318, "/in"));
        assert_eq!(read("http://[::1]:80"), of("::1", 80, ""));
        assert_eq!(read("http://[::1]"), of("::1", 4318, ""));
        for wrong in ["https://a", "a:1", "http://", "http://a:x", "http://u@a", "http://a b", "http://a\r\nX: y"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
