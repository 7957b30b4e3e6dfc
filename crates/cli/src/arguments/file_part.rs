//! A file, and the part of it that is meant.

use std::path::PathBuf;
use std::str::FromStr;

/// `FilePart` is a file with several parts, such as histograms or services, and the name of one of them: `FILE` or `FILE:PART`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// The file.
    pub file: PathBuf,
    /// The part; without it, the only one of the file.
    pub part: Option<String>,
}

impl FromStr for FilePart {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let folder_ends = text.rfind('/').map_or(0, |at| at + 1);
        let (file, part) = match text[folder_ends..].split_once(':') {
            Some((name, part)) => (&text[..folder_ends + name.len()], Some(part)),
            None => (text, None),
        };
        if file.is_empty() || part.is_some_and(str::is_empty) {
            return Err(
                "name a file, or a file and a part of it: metrics.txt:request_seconds, spans.json:checkout".into(),
            );
        }
        Ok(Self {
            file: file.into(),
            part: part.map(Into::into),
        })
    }
}
