//! The qualities of DDS that endpoints offer and request, and whether they match (DDS 1.4, section 2.2.3).

/// A length without end, in seconds and fractions of 2^-32 s.
const WITHOUT_END: u64 = (0x7fff_ffff << 32) | 0xffff_ffff;

/// The qualities that a writer offers or a reader requests. Lengths order as their numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointQualities {
    /// Whether lost messages are sent again.
    pub reliable: bool,
    /// The lives that messages outlast: 0 for none, higher ones for more.
    pub durability: u32,
    /// The longest distance between messages.
    pub(crate) deadline_length: u64,
    /// The proof that the writer lives, from the middleware's (0) to the program's own (2), and its longest distance.
    pub(crate) liveliness: (u32, u64),
    /// Whether one writer alone may write an instance.
    pub(crate) exclusive: bool,
    /// Whether messages are ordered by the time of their writers.
    pub(crate) source_order: bool,
    /// Whether groups of messages stay together.
    pub(crate) grouped: bool,
    /// Whether the endpoint is in no partition but the one without a name.
    pub(crate) unpartitioned: bool,
    /// Whether messages are in the first representation of CDR.
    pub(crate) plain_cdr: bool,
}

impl Default for EndpointQualities {
    fn default() -> Self {
        Self {
            reliable: false,
            durability: 0,
            deadline_length: WITHOUT_END,
            liveliness: (0, WITHOUT_END),
            exclusive: false,
            source_order: false,
            grouped: false,
            unpartitioned: true,
            plain_cdr: true,
        }
    }
}

/// A quality that a reader requests and a writer does not offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the writer does not offer the {0} that the reader requests")]
pub struct QualityMismatch(pub &'static str);

impl EndpointQualities {
    /// The default qualities with this reliability.
    pub fn of(reliable: bool) -> Self {
        Self {
            reliable,
            ..Self::default()
        }
    }

    /// Compares what a writer offers with what a reader requests.
    ///
    /// # Errors
    /// If the writer does not offer a quality that the reader requests.
    pub fn match_offer(offered: &Self, requested: &Self) -> Result<(), QualityMismatch> {
        let checks = [
            (offered.reliable || !requested.reliable, "reliability"),
            (offered.durability >= requested.durability, "durability"),
            (
                offered.deadline_length <= requested.deadline_length,
                "deadline",
            ),
            (
                offered.liveliness.0 >= requested.liveliness.0
                    && offered.liveliness.1 <= requested.liveliness.1,
                "liveliness",
            ),
            (offered.exclusive == requested.exclusive, "ownership"),
            (
                offered.source_order || !requested.source_order,
                "order of delivery",
            ),
            (offered.grouped || !requested.grouped, "presentation"),
            (
                offered.unpartitioned && requested.unpartitioned,
                "partition",
            ),
            (offered.plain_cdr && requested.plain_cdr, "representation"),
        ];
        match checks.into_iter().find(|(holds, _)| !holds) {
            Some((_, quality)) => Err(QualityMismatch(quality)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_beyond_the_offer_names_the_quality() {
        let plain = EndpointQualities::default();
        let reliable = EndpointQualities {
            reliable: true,
            ..plain
        };
        assert_eq!(EndpointQualities::match_offer(&reliable, &plain), Ok(()));
        let refused = EndpointQualities::match_offer(&plain, &reliable);
        assert_eq!(refused, Err(QualityMismatch("reliability")));
        let quick = EndpointQualities {
            deadline_length: 1 << 32,
            ..plain
        };
        assert_eq!(EndpointQualities::match_offer(&quick, &plain), Ok(()));
        let refused = EndpointQualities::match_offer(&plain, &quick);
        assert_eq!(refused, Err(QualityMismatch("deadline")));
        let lasting = EndpointQualities {
            durability: 1,
            ..plain
        };
        let refused = EndpointQualities::match_offer(&plain, &lasting);
        assert_eq!(refused, Err(QualityMismatch("durability")));
    }
}
