//! Events of the preloaded library.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tailbound_trace::kernel::LockKind;
use tailbound_trigger::TriggerEvent;
use tailbound_trigger::clock::ClockConversion;

/// The part of an event that says what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOperation {
    /// The thread belongs to this process; before all else that it does.
    Process(u32),
    /// A lock is held from now on.
    Acquired {
        /// The kind of the lock.
        kind: LockKind,
        /// The address of the lock.
        lock: u64,
        /// The address behind the call.
        site: u64,
        /// The instant of the request in nanoseconds, if the lock was taken then.
        requested_ns: Option<u64>,
    },
    /// A lock is about to be given up.
    Released {
        /// The address of the lock.
        lock: u64,
    },
    /// The lock that counts as acquired is waited for.
    WaitBegan {
        /// The address of the lock.
        lock: u64,
    },
    /// The lock is held from now on, and was waited for since it counted as acquired.
    WaitEnded {
        /// The address of the lock.
        lock: u64,
    },
    /// The CPU goes to another thread. The last spin lock is that thread's from now on: the kernel hands the lock of its
    /// queue over so, and holds no other spin lock there.
    HandedOver {
        /// The other thread.
        to: u32,
    },
}

/// An event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockEvent {
    /// The instant on CLOCK_MONOTONIC, in nanoseconds.
    pub instant_ns: u64,
    /// The thread.
    pub thread: u32,
    /// Whether events of the thread are missing before this one.
    pub follows_loss: bool,
    /// What happened.
    pub operation: LockOperation,
}

/// The translation of events of a recording.
#[derive(Debug, Default)]
pub struct LockEventReader {
    names: BTreeMap<u16, String>,
}

impl LockEventReader {
    /// Translates an event; `None` for one that the preloaded library does not write. `name` gives names of triggers.
    pub fn translate(
        &mut self,
        event: &TriggerEvent,
        conversion: &ClockConversion,
        name: impl FnOnce(u16) -> Option<String>,
    ) -> Option<LockEvent> {
        if let Entry::Vacant(entry) = self.names.entry(event.site) {
            entry.insert(name(event.site)?);
        }
        let kind = match self.names[&event.site].as_str() {
            "process" => None,
            "mutex.acquired" | "mutex.reacquired" => Some(Some(LockKind::Mutex)),
            "read.acquired" => Some(Some(LockKind::Read)),
            "write.acquired" => Some(Some(LockKind::Write)),
            "spin.acquired" => Some(Some(LockKind::Spin)),
            "mutex.released" | "rwlock.released" | "spin.released" => Some(None),
            _ => return None,
        };
        let operation = match (kind, event.arguments()) {
            (None, &[process]) => LockOperation::Process(u32::try_from(process).ok()?),
            (Some(None), &[lock, _]) => LockOperation::Released { lock },
            (Some(Some(kind)), &[lock, site, ref requested @ ..]) => LockOperation::Acquired {
                kind,
                lock,
                site,
                requested_ns: requested.first().map(|it| conversion.monotonic_ns(*it)),
            },
            _ => return None,
        };
        Some(LockEvent {
            instant_ns: conversion.monotonic_ns(event.instant),
            thread: event.thread,
            follows_loss: event.follows_loss,
            operation,
        })
    }
}
