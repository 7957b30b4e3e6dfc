//! Notes of who is to be asked to go on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// A note that a connection is to be asked again.
#[derive(Debug, Default)]
pub(super) struct WakeNote(AtomicBool);

impl WakeNote {
    pub(super) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for WakeNote {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The streams that are to be asked, with a waker for the place of each; wakers are made once for a place.
#[derive(Debug, Default)]
pub(super) struct StreamWakes {
    woken: Arc<Mutex<VecDeque<usize>>>,
    wakers: Vec<Waker>,
}

#[derive(Debug)]
struct StreamWake {
    place: usize,
    woken: Arc<Mutex<VecDeque<usize>>>,
}

impl Wake for StreamWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        woken.push_back(self.place);
    }
}

impl StreamWakes {
    /// The stream at this place is to be asked.
    pub(super) fn note(&self, place: usize) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        woken.push_back(place);
    }

    /// A stream that is to be asked, if there is one.
    pub(super) fn take(&self) -> Option<usize> {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        woken.pop_front()
    }

    /// The waker of a place.
    pub(super) fn waker(&mut self, place: usize) -> Waker {
        while self.wakers.len() <= place {
            let wake = StreamWake {
                place: self.wakers.len(),
                woken: Arc::clone(&self.woken),
            };
            self.wakers.push(Arc::new(wake).into());
        }
        self.wakers[place].clone()
    }
}
