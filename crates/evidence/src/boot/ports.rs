//! Finds the thread to charge the end of a boot to if the boot ends with a port's answer, from the trace's socket
//! events.
//!
//! The kernel itself accepts a connection as soon as a socket listens, even if its program does not call accept. So for
//! a port, it is the thread that made it listen. A page needs a program that serves it. That is the thread that closed
//! the connection, because the recorder asks the server to close it. The time after that, until the recorder has its
//! answer, is the host's.

use crate::formats::ftrace::{PortEvent, SocketChange};
use recording::Until;
use timeline::{Ns, SpanKind, SpanRow, Timeline, TrackId, TrackKind};

/// The trace's evidence of the port that the boot ends with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PortHistory {
    /// The time since which it listens, and the track that made it listen.
    listens: Option<(Ns, TrackId)>,
    /// The time of the connection that counts: the first one for a port, the last one for a page.
    connected: Option<Ns>,
    /// The time at which that connection was closed, and the track that closed it.
    served: Option<(Ns, TrackId)>,
}

/// The host's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub at: Ns,
    /// The beginning of the last failed attempt.
    pub absent: Ns,
    /// Largest error of the events' times.
    pub trace_error: Ns,
}

/// The track that the end of the boot is charged from; `None` if the trace does not show it. `events` are the socket
/// events, in order of time.
pub(crate) fn answered(
    events: &[PortEvent],
    until: &Until,
    answer: Answer,
    timeline: &mut Timeline,
) -> Option<TrackId> {
    let (port, is_page, end) = (until.port()?, matches!(until, Until::Http(_)), answer.at);
    let history = PortHistory::of(events, port, is_page, end + answer.trace_error);
    let mut host = HostTime::default();
    let (since, by) = match history.served {
        Some(served) => {
            host.pieces.push((served.0, end, format!("hears the answer of port {port}")));
            served
        }
        None => {
            let listens = history.listens?;
            host.add_unanswered(port, listens.0, answer.absent, history.connected.unwrap_or(end).min(end));
            let what = if is_page { "waits for the page" } else { "hears the answer" };
            host.pieces.extend(history.connected.map(|at| (at, end, format!("{what} of port {port}"))));
            listens
        }
    };
    host.pieces.retain(|(from, to, _)| from < to);
    if since >= end || host.pieces.is_empty() {
        return Some(by);
    }
    Some(host.track(timeline, since, by))
}

impl PortHistory {
    fn of(events: &[PortEvent], port: u16, is_page: bool, end: Ns) -> PortHistory {
        let mut history = PortHistory::default();
        let mut open = 0u64;
        for event in events.iter().filter(|event| event.port == port && !event.is_loopback && event.at <= end) {
            match event.change {
                SocketChange::Listens => {
                    open += 1;
                    history.listens = history.listens.or(Some((event.at, event.track)));
                }
                SocketChange::ListensNoMore => {
                    open = open.saturating_sub(1);
                    if open == 0 {
                        history = PortHistory::default();
                    }
                }
                SocketChange::Connected if is_page || history.connected.is_none() => {
                    (history.connected, history.served) = (Some(event.at), None);
                }
                SocketChange::Closed if is_page && history.connected.is_some() => {
                    history.served = history.served.or(Some((event.at, event.track)));
                }
                SocketChange::Connected | SocketChange::Closed => {}
            }
        }
        history
    }
}

/// The host's work after the guest's part was done.
#[derive(Default)]
struct HostTime {
    pieces: Vec<(Ns, Ns, String)>,
}

impl HostTime {
    /// Adds the time between the start of listening and the connection: first the guest's network does not answer, then
    /// the host has yet to ask again.
    fn add_unanswered(&mut self, port: u16, listens: Ns, absent: Ns, connected: Ns) {
        let again = absent.clamp(listens, connected.max(listens));
        self.pieces.push((listens, again, format!("gets no answer, though port {port} listens")));
        self.pieces.push((again, connected, format!("asks port {port} again")));
    }

    /// The host's track, which begins where the guest's track `by` was done.
    fn track(self, timeline: &mut Timeline, since: Ns, by: TrackId) -> TrackId {
        let name = timeline.names.intern("host");
        let track = timeline.tracks.add(name, TrackKind::Vmm, 0);
        timeline.tracks.get_mut(track).created = Some((since, by));
        for (start, end, what) in self.pieces {
            let what = timeline.names.intern(&what);
            let row = SpanRow { name, detail: what, start, end, track, kind: SpanKind::Stage };
            timeline.spans.push(row, None);
        }
        track
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SocketChange::{Closed, Connected, Listens, ListensNoMore};

    fn history(is_page: bool, end: i64, events: &[(i64, u32, SocketChange)]) -> PortHistory {
        let event = |&(at, track, change): &(i64, u32, SocketChange)| PortEvent {
            at: Ns(at),
            track: TrackId(track),
            port: 80,
            is_loopback: false,
            change,
        };
        let mut events: Vec<PortEvent> = events.iter().map(event).collect();
        // The host reaches neither of these at the port.
        let of_others = [
            PortEvent { is_loopback: true, ..event(&(1, 90, Listens)) },
            PortEvent { port: 81, ..event(&(2, 91, Listens)) },
            PortEvent { port: 81, ..event(&(3, 92, Connected)) },
        ];
        events.splice(..0, of_others);
        PortHistory::of(&events, 80, is_page, Ns(end))
    }

    fn at(at: i64, track: u32) -> Option<(Ns, TrackId)> {
        Some((Ns(at), TrackId(track)))
    }

    #[test]
    fn a_port_is_the_thread_that_listened_first_and_still_did() {
        let two = history(false, 99, &[(10, 1, Listens), (11, 2, Listens), (20, 3, Connected), (30, 3, Connected)]);
        assert_eq!(two, PortHistory { listens: at(10, 1), connected: Some(Ns(20)), served: None });
        let again =
            history(false, 99, &[(10, 1, Listens), (15, 1, ListensNoMore), (20, 2, Listens), (30, 3, Connected)]);
        assert_eq!(again, PortHistory { listens: at(20, 2), connected: Some(Ns(30)), served: None });
        let of_two = history(false, 99, &[(10, 1, Listens), (11, 1, Listens), (15, 1, ListensNoMore)]);
        assert_eq!(of_two.listens, at(10, 1), "the other one goes on");
        assert_eq!(history(false, 9, &[(10, 1, Listens)]), PortHistory::default(), "the end was before");
    }

    #[test]
    fn a_page_is_the_thread_that_closed_its_connection() {
        let refused_first =
            [(10, 1, Listens), (20, 3, Connected), (25, 5, Closed), (40, 3, Connected), (45, 6, Closed)];
        let page = history(true, 99, &refused_first);
        assert_eq!(page, PortHistory { listens: at(10, 1), connected: Some(Ns(40)), served: at(45, 6) });
        let unseen = history(true, 44, &refused_first);
        assert_eq!((unseen.connected, unseen.served), (Some(Ns(40)), None), "what was closed is another connection");
        assert_eq!(history(false, 99, &refused_first).served, None, "only a page is served");
    }

    #[test]
    fn the_hosts_time_has_no_holes() {
        let pieces = |absent: i64| {
            let mut host = HostTime::default();
            host.add_unanswered(80, Ns(100), Ns(absent), Ns(200));
            host.pieces.iter().map(|(from, to, _)| (from.0, to.0)).collect::<Vec<_>>()
        };
        assert_eq!(pieces(150), [(100, 150), (150, 200)], "it listened, and the network did not answer");
        assert_eq!(pieces(90), [(100, 100), (100, 200)], "it listened after the last attempt");
        assert_eq!(pieces(250), [(100, 200), (200, 200)]);
    }
}
