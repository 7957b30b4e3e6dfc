//! From a text or a file to a description.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::format::DescriptionFormat;
use super::place::KeyPath;
use super::shape::shaped;
use super::syntax::syntax_errors;
use super::tree::Tree;
use crate::description::Description;
use crate::inputs::{InputFiles, load_each};
use crate::problem::{Problem, Problems, Severity, SourceText};
use crate::validation::findings;

/// The core of the format alone.
static CORE: DescriptionFormat = DescriptionFormat::with(&[]);

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
    /// A problem with what is written at `place`, which something outside of the file shows.
    pub fn problem(&self, place: &KeyPath, message: String, remedy: String) -> Problem {
        let file = self.path.display().to_string();
        let source = SourceText {
            file: &file,
            text: &self.text,
        };
        let span = Tree::parse(&self.text).0.span(place);
        source.problem(Severity::Error, span, place.to_string(), message, remedy)
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
        load_each(
            &self.description,
            self.base(),
            |place, message, remedy, _| self.problem(place, message, remedy),
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

impl DescriptionFormat {
    /// Reads `text` as a description; `file` names it in problems. Never panics.
    pub fn check(&self, text: &str, file: &str) -> Checked {
        let parse = || Tree::parse(text);
        self.check_parsed(SourceText { file, text }, parse)
    }

    /// As `check`, of a text that may have been parsed already; one that is too long is not.
    pub(super) fn check_parsed(
        &self,
        source: SourceText<'_>,
        parse: impl FnOnce() -> (Tree, bool),
    ) -> Checked {
        let (description, problems) = match checked(self, source, parse) {
            Ok((description, problems)) => (Some(description), problems),
            Err(problems) => (None, problems),
        };
        let problems = Problems::new(problems);
        Checked {
            description: description.filter(|_| !problems.has_errors()),
            problems,
        }
    }

    /// Reads the description in the file `path`.
    ///
    /// # Errors
    /// If the file cannot be read, or all that is wrong in it.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<LoadedDescription, LoadError> {
        let path = path.as_ref();
        let text = read_text(path)?;
        self.load_text(text.clone(), path)
            .map_err(|problems| LoadError::Problems { text, problems })
    }

    /// Reads the description in `text`, which is from `path` or would lie there.
    ///
    /// # Errors
    /// All that is wrong in it.
    pub fn load_text(
        &self,
        text: String,
        path: impl AsRef<Path>,
    ) -> Result<LoadedDescription, Problems> {
        let path = path.as_ref().to_owned();
        let Checked {
            description,
            problems,
        } = self.check(&text, &path.display().to_string());
        match description {
            Some(description) => Ok(LoadedDescription {
                description,
                path,
                text,
                warnings: problems,
            }),
            None => Err(problems),
        }
    }
}

/// Reads `text` as a description of the core of the format: see [`DescriptionFormat::check`].
pub fn check(text: &str, file: &str) -> Checked {
    CORE.check(text, file)
}

/// Both outcomes may carry problems; `Err` ends the reading early.
fn checked(
    format: &DescriptionFormat,
    source: SourceText<'_>,
    parse: impl FnOnce() -> (Tree, bool),
) -> Result<(Description, Vec<Problem>), Vec<Problem>> {
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
    let shaped = shaped(&tree.root, format.schema(), &mut shape_errors);
    let cut: Vec<KeyPath> = shape_errors
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
    let description = match typed(format, shaped) {
        Ok(description) => description,
        Err(wrong) => {
            let remedy = "this is a gap between schema and reader; please report it";
            problems.push(error(0..0, String::new(), wrong.to_string(), remedy.into()));
            return Err(problems);
        }
    };
    let sensible = findings(&description, &tree, format.sections()).into_iter();
    let unrelated = sensible.filter(|f| !cut.iter().any(|place| place.is_related_to(&f.place)));
    problems.extend(unrelated.map(|f| {
        let span = tree.span(&f.place);
        source.problem(f.severity, span, f.place.to_string(), f.message, f.remedy)
    }));
    Ok((description, problems))
}

/// The description in a document of the right shape, whose sections have been read once, too.
fn typed(format: &DescriptionFormat, shaped: serde_json::Value) -> serde_json::Result<Description> {
    let description: Description = serde_json::from_value(shaped)?;
    for section in format.sections() {
        (section.read)(&description.sections)?;
    }
    Ok(description)
}

/// Reads `text` as a description of the core of the format; `file` names it in problems. Warnings are
/// dropped: [`check`] keeps them.
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

/// The text of the file `path`.
fn read_text(path: &Path) -> Result<String, LoadError> {
    let shown = path.display().to_string();
    let bytes = read(path).map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        let source = SourceText {
            file: &shown,
            text: &text,
        };
        let message = "a byte here is not UTF-8, in which TOML is written";
        let remedy = "save the file as UTF-8";
        let problem = source.problem(Severity::Error, at..at + 1, "", message, remedy);
        let problems = Problems::new(vec![problem]);
        LoadError::Problems { text, problems }
    })
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
