//! Notices between a thread that shows its state and a thread that posts orders, neither of which waits.
//!
//! The owner first shows its new state and then looks for a post; the poster first posts and then looks
//! at the state. Of the two at least one sees the other: a poster that still finds the old state knows that
//! the owner will find the post.

use crate::hint;
use crate::seqlock::Seqlock;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The most attempts of a poster at a state that is being written, which is three numbers long. Loom
/// tries every order, so there the second attempt is enough.
const ATTEMPTS: u32 = if cfg!(loom) { 2 } else { 10_000 };

/// A board with the state of its owner and the latest orders of one poster at a time.
#[derive(Debug, Default)]
pub struct NoticeBoard {
    shown: Seqlock,
    /// Written in turns, so that the post before can be read during a write: an order and its number.
    posts: [Seqlock; 2],
    /// The number of the last post, from 1.
    number: AtomicU64,
}

impl NoticeBoard {
    /// Shows the owner's state; for the owner.
    pub fn show(&self, state: [u64; 3]) {
        self.shown.write(state);
    }

    /// Reads the owner's state; `None` before the first one, or if the owner is in the middle of a new one
    /// for longer than a write takes.
    pub fn shown(&self) -> Option<[u64; 3]> {
        for _ in 0..ATTEMPTS {
            match self.shown.read() {
                Ok(state) => return state,
                Err(_) => hint::spin_loop(),
            }
        }
        None
    }

    /// Posts an order in place of the one before; for one poster at a time.
    pub fn post(&self, [first, second]: [u64; 2]) {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        let place = usize::from(number.is_multiple_of(2));
        self.posts[place].write([first, second, number]);
    }

    /// Reads the latest order if its number is above `seen`, which becomes the number; for the owner, after
    /// [`NoticeBoard::show`]. A post that is being written counts as later than the owner's state: its
    /// poster will read that state.
    pub fn latest_post(&self, seen: &mut u64) -> Option<[u64; 2]> {
        let complete = self.posts.iter().filter_map(|it| it.read().ok().flatten());
        let latest = complete.max_by_key(|&[_, _, number]| number);
        let [first, second, number] = latest.filter(|&[_, _, number]| number > *seen)?;
        *seen = number;
        Some([first, second])
    }
}
