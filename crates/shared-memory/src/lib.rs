//! What threads hand each other through memory where one of them must never wait.
//!
//! A [`NoticeBoard`] passes numbers that are read together, and a [`Mailbox`] passes requests, answers and
//! notes. Both are cores: clocks, descriptors and the meaning of the numbers stay with their users. Their
//! locks and atomics are loom's under `cfg(loom)`, so that `make loom` runs the tests in every order in
//! which threads can interleave and in which memory may become visible; elsewhere they are the standard
//! library's, and the same tests run on real threads.

mod mailbox;
mod notice_board;
mod seqlock;

#[cfg(test)]
mod interleavings;

pub use mailbox::{Doorbell, Mailbox};
pub use notice_board::NoticeBoard;

#[cfg(loom)]
use loom::{hint, sync};
#[cfg(not(loom))]
use std::{hint, sync};
