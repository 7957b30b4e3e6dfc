//! A server of HTTP/2 whose behaviour each test chooses: frames by hand, as RFC 9113 has them.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACKNOWLEDGED: u8 = 1;
const END_STREAM_AND_HEADERS: u8 = 5;
const PREFACE: usize = 24;

/// The server's end of one connection.
pub struct Http2Peer {
    pub stream: UnixStream,
    /// Which connection of the server this is, from 0.
    pub number: usize,
}

impl Http2Peer {
    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame)
    }

    /// Ends a stream with status 200 or 404.
    pub fn answer(&mut self, stream: u32, is_good: bool) -> io::Result<()> {
        // Entries 8 and 13 of the static table (RFC 7541, appendix A).
        let status = if is_good { 0x88 } else { 0x8d };
        self.frame(HEADERS, END_STREAM_AND_HEADERS, stream, &[status])
    }

    /// Refuses a stream (REFUSED_STREAM).
    pub fn refuse(&mut self, stream: u32) -> io::Result<()> {
        self.frame(RESET, 0, stream, &7_u32.to_be_bytes())
    }

    /// Allows this number of streams at once.
    pub fn allow(&mut self, streams: u32) -> io::Result<()> {
        self.frame(SETTINGS, 0, 0, &stream_limit(streams))
    }

    /// Takes no streams after this one.
    pub fn say_goodbye(&mut self, last: u32) -> io::Result<()> {
        let payload = [last.to_be_bytes(), [0; 4]].concat();
        self.frame(GOAWAY, 0, 0, &payload)
    }

    /// Reads frames until a request comes; returns its stream.
    pub fn next_request(&mut self) -> io::Result<u32> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head)?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload)?;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            match (head[3], head[4] & ACKNOWLEDGED) {
                (HEADERS, _) => return Ok(stream),
                (SETTINGS, 0) => self.frame(SETTINGS, ACKNOWLEDGED, 0, &[])?,
                (PING, 0) => self.frame(PING, ACKNOWLEDGED, 0, &payload)?,
                _ => {}
            }
        }
    }
}

/// The setting SETTINGS_MAX_CONCURRENT_STREAMS.
fn stream_limit(streams: u32) -> Vec<u8> {
    [&[0, 3][..], &streams.to_be_bytes()].concat()
}

/// Serves connections by `behaviour`, each in a thread; `streams` is how many requests of one may be open at once.
pub fn serve_http2(
    socket: &Path,
    streams: u32,
    behaviour: impl Fn(&mut Http2Peer) -> io::Result<()> + Send + Sync + 'static,
) {
    let listener = UnixListener::bind(socket).unwrap();
    let behaviour = Arc::new(behaviour);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let behaviour = Arc::clone(&behaviour);
            std::thread::spawn(move || {
                let mut peer = Http2Peer { stream, number };
                let begun = peer
                    .stream
                    .read_exact(&mut [0; PREFACE])
                    .and_then(|()| peer.allow(streams));
                let _the_client_judges = begun.and_then(|()| behaviour(&mut peer));
            });
        }
    });
}
