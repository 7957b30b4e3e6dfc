//! Mode changes: every domain gets another reservation and other tasks, and neither the host nor a
//! domain is overloaded at any instant.
//!
//! The host mode manager ([`manager`]) decides what happens in which order ([`transition`]) over the
//! reservations of an enforcer ([`enforcer_adapter`]) and the links to the domain mode managers ([`links`]).
//! These, the agents ([`agent`]), switch the tasks of their domains; what they say is held
//! against what the host sees ([`contradictions`]). They talk in the messages of
//! [`wire`], in the frames of [`tailbound_control::frame`], which are those of the daemon's control
//! socket, too. What is asked of modes over that socket is in [`control`].

pub mod agent;
pub mod change_phases;
pub mod contradictions;
pub mod control;
pub mod enforcer_adapter;
pub mod links;
pub mod manager;
pub mod preamble;
pub mod table;
pub mod table_from_description;
pub mod table_replacement;
pub mod tls;
pub mod transition;
pub mod triggers;
pub mod wire;
