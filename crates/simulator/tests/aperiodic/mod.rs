//! Soft jobs beside hard tasks: schedules that can be followed by hand, the tree of reservations and a
//! simulation from tick to tick as oracles, and what must hold under every policy.

mod by_hand;
mod descriptions;
mod least_response;
mod oracle;
mod overheads;
mod properties;
mod sets;
mod tree;

use tailbound_simulator::aperiodic::promotions;
