//! Arrivals at the readers of this program. Cyclone DDS calls back with a reader and nothing else, so all readers that wait
//! are in one table.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use cyclonedds::Reader;
use cyclonedds::entity::{Entity, EntityId};

use super::octets::Octets;

static ARRIVALS: RwLock<BTreeMap<EntityId, Arc<ArrivalSign>>> = RwLock::new(BTreeMap::new());

/// Whether something has arrived at a reader since the reader was looked at.
#[derive(Debug, Default)]
struct ArrivalSign {
    happened: Mutex<bool>,
    moment: Condvar,
}

/// The entry of a reader in the table, as long as the reader lives.
#[derive(Debug)]
pub(super) struct ArrivalWatch {
    reader: EntityId,
    arrival: Arc<ArrivalSign>,
}

impl ArrivalWatch {
    /// Begins to watch a reader that calls [`note_arrival`]. What arrived before is not seen.
    pub(super) fn of(reader: EntityId) -> Self {
        let arrival = Arc::<ArrivalSign>::default();
        let mut arrivals = ARRIVALS.write().unwrap_or_else(PoisonError::into_inner);
        arrivals.insert(reader, Arc::clone(&arrival));
        Self { reader, arrival }
    }

    /// Waits for an arrival that was not waited for yet, until an end; without one, for ever. Whether there was one.
    pub(super) fn wait(&self, end: Option<Instant>) -> bool {
        let mut happened = lock(&self.arrival.happened);
        while !*happened {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            happened = match left {
                Some(Duration::ZERO) => return false,
                Some(left) => {
                    let outcome = self.arrival.moment.wait_timeout(happened, left);
                    outcome.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let outcome = self.arrival.moment.wait(happened);
                    outcome.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
        *happened = false;
        true
    }
}

impl Drop for ArrivalWatch {
    fn drop(&mut self) {
        let mut arrivals = ARRIVALS.write().unwrap_or_else(PoisonError::into_inner);
        arrivals.remove(&self.reader);
    }
}

/// Wakes whoever waits for a reader; a thread of Cyclone DDS calls it.
pub(super) fn note_arrival(reader: &Reader<'_, '_, '_, Octets>) {
    let arrivals = ARRIVALS.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(arrival) = arrivals.get(&reader.id()) {
        *lock(&arrival.happened) = true;
        arrival.moment.notify_one();
    }
}

fn lock(happened: &Mutex<bool>) -> MutexGuard<'_, bool> {
    happened.lock().unwrap_or_else(PoisonError::into_inner)
}
