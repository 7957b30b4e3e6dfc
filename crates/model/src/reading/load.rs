//! From a text or a file to a description.

use std::cell::LazyCell;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::place::Place;
use super::shape::shaped;
use super::syntax::syntax_errors;
use super::tree::Tree;
use crate::description::Description;
use crate::inputs::{InputFiles, load_each};
use crate::problem::{Problem, Problems, Severity, Source};
use crate::schema::json_schema;
use crate::validation::findings;

static SCHEMA: LazyLock<serde_json::Value> = LazyLock::new(json_schema);

/// A description and where it came from.
#[derive(Clone, Debug)]
pub struct LoadedDescription {
    /// The description.
    pub description: Description,
    /// The file.
    pub path: PathBuf,
    /// The file's text.
    pub text: String,
    /// Warnings about it; no errors.
    pub warnings: Problems,
}

impl LoadedDescription {
    /// Reads the description in `text`, which is from `path` or would lie there.
    ///
    /// # Errors
    /// All that is wrong in it.
    pub fn of_text(text: String, path: impl AsRef<Path>) -> Result<Self, Problems> {
        let path = path.as_ref().to_owned();
        let Checked {
            description,
            problems,
        } = check(&text, &path.display().to_string());
        match description {
            Some(description) => Ok(Self {
                description,
                path,
                text,
                warnings: problems,
            }),
            None => Err(problems),
        }
    }

    /// The folder that relative paths in the description start from.
    pub fn base(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    /// Reads every trace and sample file that the description names.
    ///
    /// # Errors
    /// All that is malformed, with the file and line of each; a missing file at the line of the
    /// description that names it.
    pub fn inputs(&self) -> Result<InputFiles, Problems> {
        let file = self.path.display().to_string();
        let source = Source {
            file: &file,
            text: &self.text,
        };
        // Read once more only for the place of a problem.
        let tree = LazyCell::new(|| Tree::parse(&self.text).0);
        load_each(
            &self.description,
            self.base(),
            |place, message, remedy, _| {
                let span = tree.span(place);
                source.problem(Severity::Error, span, place.to_string(), message, remedy)
            },
        )
    }
}

/// Why a description could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error(
        "cannot read {}: {source}; name a description file (TOML) that you may read",
        path.display()
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is not a description.
    #[error("{problems}")]
    Problems {
        /// The file's text, for rendering; lossy where it is not UTF-8.
        text: String,
        /// All that is wrong.
        problems: Problems,
    },
}

/// What a text says, and all that is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The description; there if no problem is an error.
    pub description: Option<Description>,
    /// Errors and warnings.
    pub problems: Problems,
}

/// The longest text that is read, in bytes; a hundred times what anybody writes by hand.
pub(crate) const LONGEST_TEXT: usize = 1 << 20;

/// Reads `text` as a description; `file` names it in problems. Never panics.
pub fn check(text: &str, file: &str) -> Checked {
    let parse = || Tree::parse(text);
    check_parsed(Source { file, text }, parse)
}

/// As [`check`], of a text that may have been parsed already; one that is too long is not.
pub(super) fn check_parsed(source: Source<'_>, parse: impl FnOnce() -> (Tree, bool)) -> Checked {
    let (description, problems) = match checked(source, parse) {
        Ok(found) => found,
        Err(problems) => (None, problems),
    };
    let problems = Problems::new(problems);
    Checked {
        description: description.filter(|_| !problems.has_errors()),
        problems,
    }
}

type Found = (Option<Description>, Vec<Problem>);

/// Both outcomes may carry problems; `Err` ends the reading early.
fn checked(
    source: Source<'_>,
    parse: impl FnOnce() -> (Tree, bool),
) -> Result<Found, Vec<Problem>> {
    let error = |span, key: String, message: String, remedy: String| {
        source.problem(Severity::Error, span, key, message, remedy)
    };
    if source.text.len() > LONGEST_TEXT {
        let message = format!("the file is longer than {LONGEST_TEXT} bytes");
        let remedy =
            "a description is written by hand; put traces in files of their own".to_owned();
        return Err(vec![error(0..0, String::new(), message, remedy)]);
    }
    let (tree, is_toml) = parse();
    if !is_toml {
        let problems = syntax_errors(source.text)
            .into_iter()
            .map(|wrong| error(wrong.span, String::new(), wrong.message, wrong.remedy));
        return Err(problems.collect());
    }
    let mut shape_errors = Vec::new();
    let shaped = shaped(&tree.root, &SCHEMA, &mut shape_errors);
    let cut: Vec<Place> = shape_errors
        .iter()
        .map(|wrong| wrong.place.clone())
        .collect();
    let mut problems: Vec<Problem> = shape_errors
        .into_iter()
        .map(|wrong| {
            error(
                wrong.span,
                wrong.place.to_string(),
                wrong.message,
                wrong.remedy,
            )
        })
        .collect();
    let Some(shaped) = shaped else {
        return Err(problems);
    };
    let description: Description = match serde_json::from_value(shaped) {
        Ok(description) => description,
        Err(wrong) => {
            let remedy = "this is a gap between schema and reader; please report it";
            problems.push(error(0..0, String::new(), wrong.to_string(), remedy.into()));
            return Err(problems);
        }
    };
    let sensible = findings(&description, &tree).into_iter();
    let unrelated = sensible.filter(|f| !cut.iter().any(|place| place.is_related_to(&f.place)));
    problems.extend(unrelated.map(|f| {
        let span = tree.span(&f.place);
        source.problem(f.severity, span, f.place.to_string(), f.message, f.remedy)
    }));
    Ok((Some(description), problems))
}

/// Reads `text` as a description; `file` names it in problems. Warnings are dropped: [`check`]
/// keeps them.
///
/// # Errors
/// All that is wrong in it.
pub fn parse(text: &str, file: &str) -> Result<Description, Problems> {
    let Checked {
        description,
        problems,
    } = check(text, file);
    description.ok_or(problems)
}

/// Reads the description in the file `path`.
///
/// # Errors
/// If the file cannot be read, or all that is wrong in it.
pub fn load(path: impl AsRef<Path>) -> Result<LoadedDescription, LoadError> {
    let path = path.as_ref();
    let shown = path.display().to_string();
    let bytes = read(path).map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let source = Source {
                file: &shown,
                text: &text,
            };
            let message = "a byte here is not UTF-8, in which TOML is written";
            let remedy = "save the file as UTF-8";
            let problem = source.problem(Severity::Error, at..at + 1, "", message, remedy);
            let problems = Problems::new(vec![problem]);
            return Err(LoadError::Problems { text, problems });
        }
    };
    LoadedDescription::of_text(text.clone(), path)
        .map_err(|problems| LoadError::Problems { text, problems })
}

/// The bytes of the file, or one more than we read a text of.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = LONGEST_TEXT as u64 + 1;
    std::fs::File::open(path)?
        .take(limit)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
