//! What a client asks one subsystem, and what that answers.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// `SubsystemRequest` is all that one subsystem can be asked. It travels in the envelope
/// [`crate::protocol::ControlRequest::Subsystem`], so that neither the protocol nor the client names subsystems.
pub trait SubsystemRequest: Serialize + DeserializeOwned {
    /// The subsystem.
    const SUBSYSTEM: &'static str;
    /// What it answers.
    type Response: Serialize + DeserializeOwned;

    /// Whether any user may ask for it: it changes nothing and costs little.
    fn is_open_to_everyone(&self) -> bool;

    /// Whether something is changed for it, which may take its turn.
    fn changes_something(&self) -> bool;
}
