//! HTTP/2 (RFC 9113): the streams of one connection, over the crate `h2`.
//!
//! `h2` is written for an async runtime. There is none here: the loop of the load generator asks the connection to go on
//! when its socket is ready, and wakers only note who is to be asked next.

mod carrier;
mod wakes;

use std::collections::VecDeque;
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Ping, Reason, RecvStream};
use http::header::{ACCEPT, HeaderMap, HeaderValue, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Uri};
use tailbound_linux::clock::Monotonic;
use tailbound_time::Clock;

use crate::protocol::Reply;
use crate::stream::{Socket, Stream};
use carrier::{Carrier, CarrierGate};
use wakes::{StreamWakes, WakeNote};

/// The number of bytes that a service may send ahead on one stream, and on all of a connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// The most bytes taken of one head, as for HTTP/1.1.
const HEAD_BYTES_MAX: u32 = 64 * 1024;

/// A connection of HTTP/2, with its requests.
pub(crate) struct Http2Link {
    socket: Arc<Socket>,
    gate: Arc<CarrierGate>,
    sender: SendRequest<Bytes>,
    connection: Connection<Carrier, Bytes>,
    scheme: Scheme,
    /// Requests for which the service allows no stream yet: the number of each, and its path.
    waiting: VecDeque<(u64, Authority, Bytes)>,
    /// The streams, in places that are used again.
    streams: Vec<Option<OpenStream>>,
    free: Vec<usize>,
    connection_wake: Arc<WakeNote>,
    stream_wakes: StreamWakes,
    headers: HeaderMap,
    /// Requests that the service says it has not begun, and will not.
    unprocessed: Vec<u64>,
    answered: u64,
    /// Whether the service takes no new requests on this connection.
    is_going_away: bool,
    /// Why the connection is over, once it is.
    end: Option<String>,
}

/// A request whose reply is not complete.
struct OpenStream {
    number: u64,
    stage: StreamStage,
}

enum StreamStage {
    Head(ResponseFuture),
    Body { body: RecvStream, status: u16 },
}

/// What became of a stream.
enum StreamEnd {
    Answered(Reply),
    Unprocessed,
    /// The connection is broken, and says why.
    Broken,
}

impl fmt::Debug for Http2Link {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Http2Link")
            .field("socket", &self.socket)
            .field("waiting", &self.waiting.len())
            .field("is_going_away", &self.is_going_away)
            .finish_non_exhaustive()
    }
}

impl Http2Link {
    /// Begins to speak HTTP/2 on a stream; what it says first is sent as soon as there is room.
    ///
    /// # Errors
    /// What `h2` says.
    pub(crate) fn begin(stream: Stream) -> Result<Self, String> {
        let socket = Arc::clone(stream.socket());
        let scheme = match stream.tls() {
            Some(_) => Scheme::HTTPS,
            None => Scheme::HTTP,
        };
        let gate = Arc::new(CarrierGate::default());
        let connection_wake = Arc::new(WakeNote::default());
        let waker = Arc::clone(&connection_wake).into();
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(HEAD_BYTES_MAX);
        let handshake = pin!(builder.handshake(Carrier::new(stream, Arc::clone(&gate))));
        let (sender, connection) = match handshake.poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(Ok(both)) => both,
            Poll::Ready(Err(error)) => return Err(text_of(&error)),
            Poll::Pending => return Err("the kernel takes no bytes of a new connection".into()),
        };
        let mut headers = HeaderMap::with_capacity(2);
        headers.insert(USER_AGENT, HeaderValue::from_static("tailbound"));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        Ok(Self {
            socket,
            gate,
            sender,
            connection,
            scheme,
            waiting: VecDeque::new(),
            streams: Vec::new(),
            free: Vec::new(),
            connection_wake,
            stream_wakes: StreamWakes::default(),
            headers,
            unprocessed: Vec::new(),
            answered: 0,
            is_going_away: false,
            end: None,
        })
    }

    /// Sends a ping; the future ends with its answer, before which the settings of the service have come.
    pub(crate) fn ping(&mut self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> {
        let ping_pong = self.connection.ping_pong();
        Box::pin(async move {
            let Some(mut ping_pong) = ping_pong else {
                return Err("a connection sends its first ping once".into());
            };
            let pong = ping_pong.ping(Ping::opaque()).await;
            pong.map(drop).map_err(|error| text_of(&error))
        })
    }

    /// The socket below.
    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Takes a request for a path of a host; [`Http2Link::write`] sends it.
    pub(crate) fn ask(&mut self, number: u64, host: Authority, path: &[u8]) {
        let path = Bytes::copy_from_slice(path);
        self.waiting.push_back((number, host, path));
    }

    /// Whether the service takes no new requests on this connection.
    pub(crate) fn is_going_away(&self) -> bool {
        self.is_going_away || self.end.is_some()
    }

    /// The most streams that were open at once: places are made only where all others are taken.
    pub(crate) fn most_streams(&self) -> u64 {
        self.streams.len() as u64
    }

    /// Why the connection is over, if it is.
    pub(crate) fn end(&self) -> Option<&str> {
        self.end.as_deref()
    }

    /// Whether something is left to write that the kernel does not take now.
    pub(crate) fn wants_to_write(&self) -> bool {
        self.end.is_none() && self.gate.is_blocked()
    }

    /// Whether there are requests that the service will not begin.
    pub(crate) fn has_unprocessed(&self) -> bool {
        self.answered > 0 && !self.unprocessed.is_empty()
    }

    /// The requests that the service will not begin, for another connection; none if it has answered nothing at all, lest
    /// they go round in circles.
    pub(crate) fn take_unprocessed(&mut self) -> Vec<u64> {
        match self.answered {
            0 => Vec::new(),
            _ => std::mem::take(&mut self.unprocessed),
        }
    }

    /// Sends requests and what else the kernel takes now, and reads nothing: a reply that has come stays in the socket,
    /// whose reader is the one who knows the time.
    pub(crate) fn write(&mut self, replies: &mut Vec<Reply>) {
        self.gate.close();
        self.go_on(replies);
    }

    /// Reads what has come, and appends the replies that it completes.
    pub(crate) fn read(&mut self, replies: &mut Vec<Reply>) {
        self.gate.open();
        self.go_on(replies);
        self.gate.close();
    }

    fn go_on(&mut self, replies: &mut Vec<Reply>) {
        while self.end.is_none() {
            self.send_waiting(replies);
            self.connection_wake.clear();
            let waker = Arc::clone(&self.connection_wake).into();
            let polled = Pin::new(&mut self.connection).poll(&mut Context::from_waker(&waker));
            let has_advanced = self.collect(replies);
            match polled {
                Poll::Ready(outcome) => {
                    let end = outcome.map_or_else(|error| text_of(&error), |()| closed());
                    self.end = Some(end);
                }
                Poll::Pending if has_advanced || self.connection_wake.is_set() => {}
                Poll::Pending => return,
            }
        }
        if self.is_going_away {
            let waiting = self.waiting.drain(..).map(|(number, ..)| number);
            self.unprocessed.extend(waiting);
        }
    }

    /// Gives streams to requests that wait, as far as the service allows.
    fn send_waiting(&mut self, replies: &mut Vec<Reply>) {
        let waker = Arc::clone(&self.connection_wake).into();
        let mut context = Context::from_waker(&waker);
        while !self.is_going_away {
            match self.sender.poll_ready(&mut context) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    // Why, says the end of the connection.
                    self.is_going_away = true;
                    return;
                }
            }
            let Some((number, host, path)) = self.waiting.pop_front() else {
                return;
            };
            if let Err(why) = self.send(number, host, path) {
                replies.push(refusal(number, why));
            }
        }
    }

    fn send(&mut self, number: u64, host: Authority, path: Bytes) -> Result<(), String> {
        let path = PathAndQuery::from_maybe_shared(path)
            .map_err(|error| format!("the path has no form that HTTP/2 takes: {error}"))?;
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(host);
        parts.path_and_query = Some(path);
        let uri = Uri::from_parts(parts).map_err(|error| error.to_string())?;
        let mut request = Request::new(());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers.clone();
        let sent = self.sender.send_request(request, true);
        let (response, _) = sent.map_err(|error| text_of(&error))?;
        let place = self.free.pop().unwrap_or_else(|| {
            self.streams.push(None);
            self.streams.len() - 1
        });
        self.streams[place] = Some(OpenStream {
            number,
            stage: StreamStage::Head(response),
        });
        // Asked once, a stream knows whom to wake.
        self.stream_wakes.note(place);
        Ok(())
    }

    /// Asks the streams that were woken; whether there was one.
    fn collect(&mut self, replies: &mut Vec<Reply>) -> bool {
        let mut has_advanced = false;
        while let Some(place) = self.stream_wakes.take() {
            has_advanced = true;
            let Some(stream) = self.streams.get_mut(place).and_then(Option::as_mut) else {
                continue;
            };
            let waker = self.stream_wakes.waker(place);
            let Poll::Ready(end) = stream.poll(&mut Context::from_waker(&waker)) else {
                continue;
            };
            let number = stream.number;
            self.streams[place] = None;
            self.free.push(place);
            match end {
                StreamEnd::Answered(reply) => {
                    self.answered += 1;
                    replies.push(reply);
                }
                StreamEnd::Unprocessed => {
                    self.is_going_away = true;
                    self.unprocessed.push(number);
                }
                StreamEnd::Broken => {}
            }
        }
        has_advanced
    }
}

impl OpenStream {
    /// Goes on with the reply.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<StreamEnd> {
        loop {
            match &mut self.stage {
                StreamStage::Head(response) => match Pin::new(response).poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => return Poll::Ready(self.end_of(&error)),
                    Poll::Ready(Ok(response)) => {
                        let status = response.status().as_u16();
                        let body = response.into_body();
                        self.stage = StreamStage::Body { body, status };
                    }
                },
                StreamStage::Body { body, status } => match body.poll_data(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Ok(data))) => {
                        // Bodies are skipped; the service may send as much again.
                        let _fails_only_with_the_stream =
                            body.flow_control().release_capacity(data.len());
                    }
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(self.end_of(&error)),
                    Poll::Ready(None) => {
                        let trailers = body.poll_trailers(context);
                        let refused = (*status >= 400).then(|| format!("HTTP status {status}"));
                        return trailers.map(|outcome| match outcome {
                            Ok(_) => StreamEnd::Answered(reply(self.number, refused)),
                            Err(error) => self.end_of(&error),
                        });
                    }
                },
            }
        }
    }

    fn end_of(&self, error: &h2::Error) -> StreamEnd {
        if is_farewell(error) {
            return StreamEnd::Unprocessed;
        }
        if error.is_io() || (error.is_go_away() && !error.is_remote()) {
            return StreamEnd::Broken;
        }
        StreamEnd::Answered(refusal(self.number, text_of(error)))
    }
}

/// Whether the service ends a connection in good order, and has not begun what the error is about.
fn is_farewell(error: &h2::Error) -> bool {
    error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR)
}

fn reply(number: u64, refused: Option<String>) -> Reply {
    Reply {
        id: Some(number),
        refused,
        at: Some(Monotonic.now()),
    }
}

fn refusal(number: u64, why: String) -> Reply {
    reply(number, Some(why))
}

fn closed() -> String {
    "the service closed the connection".into()
}

/// What an error means for whoever reads a report.
fn text_of(error: &h2::Error) -> String {
    let reason = error
        .reason()
        .map_or_else(String::new, |reason| format!("{reason:?}"));
    match error.get_io() {
        Some(cause) if cause.kind() == std::io::ErrorKind::BrokenPipe => closed(),
        Some(cause) => format!("the connection broke: {cause}"),
        None if error.is_reset() && error.is_remote() => {
            format!("the service reset the stream: {reason}")
        }
        None if error.is_go_away() && error.is_remote() => {
            format!("the service ended the connection: {reason}")
        }
        None if error.is_go_away() => {
            format!("not HTTP/2: {error}")
        }
        None => format!("HTTP/2: {error}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use std::collections::BTreeSet;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const REQUESTS: u64 = 3;

    /// Frames with heads in order and any content: kind, flags, stream and payload.
    fn frames() -> impl Strategy<Value = Vec<u8>> {
        let frame = (0..12_u8, any::<u8>(), 0..8_u32, vec(any::<u8>(), 0..40));
        vec(frame, 0..12).prop_map(|frames| {
            let bytes = frames.into_iter().map(|(kind, flags, stream, payload)| {
                let length = &(payload.len() as u32).to_be_bytes()[1..];
                [length, &[kind, flags], &stream.to_be_bytes(), &payload].concat()
            });
            bytes.collect::<Vec<_>>().concat()
        })
    }

    proptest! {
        /// Whatever a service sends, each request has at most one end, and the connection is over when the service is.
        #[test]
        fn any_bytes_end_in_order(frames in frames(), rest in vec(any::<u8>(), 0..40), is_set in any::<bool>()) {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut link = Http2Link::begin(Stream::of_unix(ours).unwrap()).unwrap();
            for number in 0..REQUESTS {
                link.ask(number, Authority::from_static("shop.test"), b"/");
            }
            let mut replies = Vec::new();
            link.write(&mut replies);
            let empty_settings: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
            if is_set {
                theirs.write_all(&empty_settings).unwrap();
            }
            theirs.write_all(&frames).unwrap();
            theirs.write_all(&rest).unwrap();
            drop(theirs);
            link.read(&mut replies);
            prop_assert!(link.end().is_some(), "{link:?}");
            let answered: Vec<u64> = replies.iter().filter_map(|reply| reply.id).collect();
            let ended = [answered, link.take_unprocessed()].concat();
            prop_assert!(ended.iter().all(|number| *number < REQUESTS), "{ended:?}");
            prop_assert_eq!(ended.iter().collect::<BTreeSet<_>>().len(), ended.len());
        }
    }
}
