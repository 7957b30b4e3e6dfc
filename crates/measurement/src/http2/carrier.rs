//! A stream in the form in which `h2` takes one.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::Stream;

/// What the owner of a carrier and the carrier share.
#[derive(Debug, Default)]
pub(super) struct CarrierGate {
    may_read: AtomicBool,
    is_blocked: AtomicBool,
}

/// A stream that wakes nobody: whoever polls knows by the poller of the loop when it is ready.
#[derive(Debug)]
pub(super) struct Carrier {
    stream: Stream,
    gate: Arc<CarrierGate>,
}

impl CarrierGate {
    /// Nothing is read until [`CarrierGate::open`].
    pub(super) fn close(&self) {
        self.may_read.store(false, Ordering::Relaxed);
    }

    /// What has come may be read.
    pub(super) fn open(&self) {
        self.may_read.store(true, Ordering::Relaxed);
    }

    /// Whether bytes wait for room in the socket.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked.load(Ordering::Relaxed)
    }
}

impl Carrier {
    pub(super) fn new(stream: Stream, gate: Arc<CarrierGate>) -> Self {
        Self { stream, gate }
    }

    fn note_room(&self, is_blocked: bool) {
        self.gate.is_blocked.store(is_blocked, Ordering::Relaxed);
    }

    /// Writes what is there of records of TLS; whether nothing is left.
    fn write_records(&mut self) -> io::Result<bool> {
        if self.stream.has_unsent() {
            self.stream.write_some(&[])?;
        }
        let has_unsent = self.stream.has_unsent();
        self.note_room(has_unsent);
        Ok(!has_unsent)
    }
}

impl AsyncRead for Carrier {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.gate.may_read.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        let count = match self.stream.read_some(buffer.initialize_unfilled())? {
            None => return Poll::Pending,
            Some(count) => count,
        };
        buffer.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Carrier {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = self.stream.write_some(bytes)?;
        let is_full = count < bytes.len();
        self.note_room(is_full || self.stream.has_unsent());
        match count {
            0 if is_full => Poll::Pending,
            count => Poll::Ready(Ok(count)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.write_records()? {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A peer that is gone already is no fault of an end.
        let _gone_already = self.stream.socket().end_writing();
        Poll::Ready(Ok(()))
    }
}
