//! The domain mode manager, called the agent: it switches the tasks of one domain when the host
//! says so, and tells when that is done or why it is not.
//!
//! - [`session`]: what is done with each message, a state machine without clock or I/O;
//! - [`engine`], [`task_table`]: how tasks are switched, and put back where one of them fails;
//! - [`signals`], [`freezer`], [`units`], [`callback`]: the ways to stop and start a task;
//! - [`link`](mod@link), [`routes`], [`port`](mod@port), [`controls`], [`service`]: connections, and the loop that serves them;
//! - [`requests`]: what asks for modes from inside the domain;
//! - [`arguments`], [`assembly`]: what the program `tailbound-agent` is told, and what becomes of
//!   it.

pub mod arguments;
pub mod assembly;
pub mod callback;
pub mod controls;
pub mod engine;
pub mod freezer;
pub mod link;
pub mod port;
pub mod requests;
pub mod routes;
pub mod service;
pub mod session;
pub mod signals;
pub mod task_table;
pub mod units;

pub use controls::AgentHandle;
pub use engine::{SwitchError, TaskEngine, TaskError};
pub use service::{Agent, Event, LinkError, Patience};
pub use session::{Session, SessionStep};
pub use task_table::{TaskControl, TaskTable};
