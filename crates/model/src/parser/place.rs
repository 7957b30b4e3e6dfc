//! Where in a description something stands.

use std::fmt;

/// One step from a table or array to what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathStep {
    /// Into a table.
    Key(String),
    /// Into an array, from 0.
    Index(usize),
}

/// A key path such as `services.cache.slos[0].latency`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPath(Vec<PathStep>);

impl KeyPath {
    /// The whole file.
    pub fn root() -> Self {
        Self::default()
    }

    /// What stands under `key` here.
    pub fn key(&self, key: impl Into<String>) -> Self {
        self.step(PathStep::Key(key.into()))
    }

    /// The element `index` here.
    pub fn index(&self, index: usize) -> Self {
        self.step(PathStep::Index(index))
    }

    fn step(&self, step: PathStep) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The steps from the root to here.
    pub(crate) fn steps(&self) -> &[PathStep] {
        &self.0
    }

    /// Whether one of the two contains the other, or they are the same.
    pub(crate) fn is_related_to(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a == b)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = |key: &str| {
            !key.is_empty()
                && key
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        for (index, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Index(index) => write!(out, "[{index}]")?,
                PathStep::Key(key) => {
                    if index > 0 {
                        out.write_str(".")?;
                    }
                    if bare(key) {
                        out.write_str(key)?;
                    } else {
                        write!(out, "{key:?}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_like_toml() {
        let place = KeyPath::root()
            .key("services")
            .key("a.b")
            .key("slos")
            .index(2)
            .key("latency");
        assert_eq!(place.to_string(), "services.\"a.b\".slos[2].latency");
    }

    #[test]
    fn a_parent_is_related_and_a_sibling_is_not() {
        let cache = KeyPath::root().key("domains").key("cache");
        assert!(cache.is_related_to(&cache.key("kind")));
        assert!(cache.key("kind").is_related_to(&cache));
        assert!(!cache.key("kind").is_related_to(&cache.key("cpus")));
    }
}
