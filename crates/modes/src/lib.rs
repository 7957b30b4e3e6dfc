//! Mode changes: every domain gets another reservation and other tasks, and neither the host nor a
//! domain is overloaded at any instant.
//!
//! The host mode manager ([`manager`]) decides what happens in which order ([`transition`]) over the
//! reservations of an enforcer ([`enforced`]) and the links to the domain mode managers ([`links`]).
//! These, the agents ([`agent`]), switch the tasks of their domains; what they say is held
//! against what the host sees ([`contradictions`]). They talk in the messages of
//! [`wire`], in the frames of [`frame`], which are those of the daemon's control socket, too.

pub mod agent;
pub mod contradictions;
pub mod described;
pub mod enforced;
pub mod frame;
pub mod links;
pub mod manager;
pub mod parts;
pub mod preamble;
pub mod table;
pub mod tls;
pub mod transition;
pub mod triggers;
pub mod wire;
