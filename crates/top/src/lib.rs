//! A live view of reservations: what they give, what is used of it, and the noise that they meet.
//!
//! [`TopView`] is a pure function of two samples of the daemon's status; [`draw`] puts it on a screen, and
//! [`live`] does so again and again on the terminal. Nothing here asks the daemon or reads a clock:
//! samples come from outside.

mod screen;
mod terminal;
mod view;

pub use screen::{HEADER, cells, draw, lines};
pub use terminal::{LiveError, live};
pub use view::{ManagerNoise, ReservationRow, StatusSample, TopView};
