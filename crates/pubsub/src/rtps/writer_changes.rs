//! The writers that a reader gained and lost since it looked last: discovery writes the list, the subscriber reads it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tailbound_rtps::{Guid, MatchedWriter};

/// A writer that a reader gained or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriterChange {
    /// The reader listens to the writer from now on.
    Gained(MatchedWriter),
    /// The writer is gone.
    Lost(Guid),
}

/// The list of changes, with a number by which a reader sees at little cost that there are some.
#[derive(Debug, Default)]
pub(super) struct WriterChanges {
    generation: AtomicU64,
    list: Mutex<Vec<WriterChange>>,
}

impl WriterChanges {
    /// The number of changes until now.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Adds a change. A writer that came and went unseen leaves nothing, so that the list has at most the writers that are
    /// there and those that the reader listens to.
    pub(super) fn add(&self, change: WriterChange) {
        let mut list = self.list();
        let unseen = match change {
            WriterChange::Gained(_) => None,
            WriterChange::Lost(guid) => list
                .iter()
                .position(|one| matches!(one, WriterChange::Gained(writer) if writer.guid == guid)),
        };
        match unseen {
            Some(place) => drop(list.remove(place)),
            None => list.push(change),
        }
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Takes the changes.
    pub(super) fn take(&self) -> Vec<WriterChange> {
        std::mem::take(&mut *self.list())
    }

    fn list(&self) -> MutexGuard<'_, Vec<WriterChange>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use tailbound_rtps::{EntityId, GuidPrefix};

    use super::*;

    #[test]
    fn a_writer_that_came_and_went_unseen_leaves_nothing() {
        let guid = GuidPrefix([1; 12]).with(EntityId::user_writer(1));
        let writer = MatchedWriter {
            guid,
            address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7_410),
            reliable: true,
        };
        let changes = WriterChanges::default();
        for _ in 0..100 {
            changes.add(WriterChange::Gained(writer));
            changes.add(WriterChange::Lost(guid));
        }
        assert!(changes.take().is_empty());
        changes.add(WriterChange::Lost(guid));
        changes.add(WriterChange::Gained(writer));
        changes.add(WriterChange::Lost(guid));
        assert_eq!(changes.take(), [WriterChange::Lost(guid)]);
        assert_eq!(changes.generation(), 203);
    }
}
