//! The submessages of a datagram that are for one participant, with the participants that they are from.

use crate::{GuidPrefix, RtpsMessage, Submessage, SubmessageFault, Submessages};

/// Yields the submessages of a datagram that are for one participant, each with its source.
#[derive(Clone, Copy, Debug)]
pub struct Addressed<'a> {
    submessages: Submessages<'a>,
    own: GuidPrefix,
    source: GuidPrefix,
    is_for_own: bool,
}

impl<'a> Addressed<'a> {
    /// The submessages of a message that are for the participant `own`.
    pub fn to(own: GuidPrefix, message: &RtpsMessage<'a>) -> Self {
        Self {
            submessages: message.submessages(),
            own,
            source: message.source,
            is_for_own: true,
        }
    }
}

impl<'a> Iterator for Addressed<'a> {
    type Item = Result<(GuidPrefix, Submessage<'a>), SubmessageFault>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.submessages.next()? {
                Ok(Submessage::Destination(prefix)) => {
                    self.is_for_own = prefix == self.own || prefix == GuidPrefix::default();
                }
                Ok(Submessage::Source(prefix)) => self.source = prefix,
                Ok(Submessage::Passed) => {}
                Ok(submessage) if self.is_for_own => return Some(Ok((self.source, submessage))),
                Ok(_) => {}
                Err(fault) => return Some(Err(fault)),
            }
        }
    }
}
