//! Waiting until a service of HTTP agrees on TLS and on HTTP/2.

use std::io;
use std::task::{Context, Poll, Waker};

use tailbound_model::HttpVersion;
use tailbound_time::Duration;

use crate::http2::Http2Link;
use crate::socket_watch::SocketWatch;
use crate::stream::Stream;
use crate::tls::{LastingTlsFault, TlsSession};

/// How long a service may take to agree: it may be throttled.
const AGREEMENT_LIMIT: Duration = Duration::from_secs(10);

/// Waits for the end of the handshake of TLS, and checks the version of HTTP that was agreed on in it.
///
/// # Errors
/// Why there is no TLS, or not the version.
pub(crate) fn await_tls(stream: &mut Stream, version: HttpVersion) -> io::Result<()> {
    let mut watch = SocketWatch::begin(stream.socket(), AGREEMENT_LIMIT)?;
    while !stream.shake_hands()? {
        watch.wait(stream.socket(), stream.has_unsent())?;
    }
    let has_agreed = |tls: &TlsSession| tls.has_agreed_on(version);
    match stream.tls().is_none_or(has_agreed) {
        true => Ok(()),
        false => Err(LastingTlsFault::of_version()),
    }
}

/// Waits for the settings of HTTP/2, by a ping that the service answers after them.
///
/// # Errors
/// That the service does not speak HTTP/2, or does not answer.
pub(crate) fn await_settings(link: &mut Http2Link) -> io::Result<()> {
    let mut watch = SocketWatch::begin(link.socket(), AGREEMENT_LIMIT)?;
    let mut ping = link.ping();
    let mut replies = Vec::new();
    loop {
        // The first poll sends the ping; what is read then may bring the answer.
        let sent = ping.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(outcome) = sent {
            return outcome.map_err(io::Error::other);
        }
        link.read(&mut replies);
        if let Some(why) = link.end() {
            let text = format!("{why}; does the service speak HTTP/2?");
            return Err(io::Error::other(text));
        }
        match ping.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => return outcome.map_err(io::Error::other),
            Poll::Pending => watch.wait(link.socket(), link.wants_to_write())?,
        }
    }
}
