//! A planned sweep as bytes that another process reads.

use serde::{Deserialize, Serialize};
use tailbound_model::InputFiles;
use tailbound_simulator::ENGINE;

use crate::{Sweep, SweepError, SweepQuery, VariedDescription};

/// What packed a parcel: another one may simulate otherwise.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Packer {
    version: String,
    /// Parcels without one are older than all engines that have a number.
    #[serde(default)]
    engine: u32,
}

/// Everything that the rows of a unit depend on.
#[derive(Serialize, Deserialize)]
struct Parcel<T, Q, I> {
    #[serde(flatten)]
    packer: Packer,
    text: T,
    query: Q,
    inputs: I,
    fingerprint: u64,
}

impl Packer {
    fn here() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine: ENGINE,
        }
    }
}

impl std::fmt::Display for Packer {
    fn fmt(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(text, "version {} (engine {})", self.version, self.engine)
    }
}

impl Sweep {
    /// The sweep as bytes, with the contents of the files that the description names: who unpacks them
    /// needs neither the description nor those.
    ///
    /// # Errors
    /// A file is named by what is no text.
    pub fn to_parcel(&self) -> Result<Vec<u8>, SweepError> {
        let parcel = Parcel {
            packer: Packer::here(),
            text: self.document.text(),
            query: &self.query,
            inputs: &self.inputs,
            fingerprint: self.fingerprint,
        };
        serde_json::to_vec(&parcel).map_err(|error| no_parcel(&error))
    }

    /// The sweep of [`Sweep::to_parcel`], planned and checked before.
    ///
    /// # Errors
    /// The bytes are no parcel, or of another version or engine.
    pub fn from_parcel(bytes: &[u8]) -> Result<Self, SweepError> {
        // First of all: what another version packed may look otherwise.
        let packer: Packer = serde_json::from_slice(bytes).map_err(|error| no_parcel(&error))?;
        let here = Packer::here();
        if packer != here {
            return Err(SweepError::Parcel {
                what: format!(
                    "it was packed by {packer}, and this is {here}; install the same version everywhere"
                ),
            });
        }
        let parcel: Parcel<String, SweepQuery, InputFiles> =
            serde_json::from_slice(bytes).map_err(|error| no_parcel(&error))?;
        Ok(Self {
            document: VariedDescription::parse(&parcel.text, "the parcel")?,
            query: parcel.query,
            inputs: parcel.inputs,
            fingerprint: parcel.fingerprint,
        })
    }
}

fn no_parcel(error: &serde_json::Error) -> SweepError {
    SweepError::Parcel {
        what: error.to_string(),
    }
}
