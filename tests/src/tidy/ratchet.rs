//! Counts of old habits that may only fall (docs/style.md), and the file that holds them.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use super::Finding;
use super::source::is_test_module;
use crate::repository::TextFile;

/// The file of the committed counts.
pub const FILE: &str = "tests/ratchet.toml";
/// Words in -ing and -ed that are nouns, or terms of GLOSSARY.md.
const NOUNS: [&str; 16] = [
    "binding",
    "dedicated",
    "embedded",
    "mapping",
    "nesting",
    "polling",
    "recording",
    "rounding",
    "scheduling",
    "setting",
    "sizing",
    "slotted",
    "speed",
    "testbed",
    "timing",
    "wording",
];
/// Participles without a regular ending.
const IRREGULAR: [&str; 9] = [
    "drawn", "fallen", "found", "held", "known", "lost", "stuck", "told", "undone",
];

/// Names that tell the origin of a value instead of its meaning.
const VAGUE: [&str; 4] = ["found", "known", "looking", "told"];

/// A count with the places that it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// The key in the file.
    pub key: &'static str,
    /// The number.
    pub number: i64,
    /// The places, for the message; none where the count is a share of all words.
    pub places: Vec<String>,
}

/// Every count over the source files.
pub fn counts(files: &[TextFile]) -> Vec<Count> {
    let participles: Vec<String> = files
        .iter()
        .map(|file| file.path.clone())
        .filter(|path| is_participle(file_stem(path)))
        .collect();
    let types: Vec<String> = repeated_types(files)
        .into_iter()
        .map(|(name, paths)| format!("{name}: {}", Vec::from_iter(paths).join(", ")))
        .collect();
    let words = comment_words(files);
    let listed = |key, places: Vec<String>| Count {
        key,
        number: i64::try_from(places.len()).unwrap(),
        places,
    };
    let share = |key, counted: &[&str]| Count {
        key,
        number: per_thousand(&words, counted),
        places: Vec::new(),
    };
    vec![
        listed("participle_files", participles),
        listed("repeated_types", types),
        listed("vague_names", vague_names(files)),
        share("it_per_thousand", &["it"]),
        share("what_who_whose_per_thousand", &["what", "who", "whose"]),
    ]
}

/// Finds counts above the committed ones.
pub fn raised(counts: &[Count], committed: &toml::Table) -> Vec<Finding> {
    let limit = |count: &Count| committed[count.key].as_integer().unwrap();
    counts
        .iter()
        .filter(|count| count.number > limit(count))
        .map(|count| {
            let (key, number, most) = (count.key, count.number, limit(count));
            let places = count.places.join("\n  ");
            let message = format!("{key} is {number}; at most {most} (docs/style.md)\n  {places}");
            Finding::new(FILE, 1, message)
        })
        .collect()
}

/// The text of the file with every count that has fallen.
pub fn lowered(text: &str, counts: &[Count]) -> String {
    let line = |line: &str| {
        let (key, committed) = line.split_once(" = ")?;
        let count = counts.iter().find(|count| count.key == key)?;
        let number = count.number.min(committed.parse().ok()?);
        Some(format!("{key} = {number}"))
    };
    text.lines()
        .map(|old| line(old).unwrap_or_else(|| old.to_owned()) + "\n")
        .collect()
}

/// The name of a source file: that of the folder for `mod.rs`.
fn file_stem(path: &str) -> &str {
    let path = path.strip_suffix("/mod.rs").unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".rs").unwrap_or(name)
}

/// Whether the last word of a name is a participle.
fn is_participle(name: &str) -> bool {
    let last = name.rsplit(['_', '-']).next().unwrap_or(name);
    let regular = last.ends_with("ing") || last.ends_with("ed");
    (regular && !NOUNS.contains(&last)) || IRREGULAR.contains(&last)
}

/// The names of types that the crates define in more than one file, with the files.
fn repeated_types(files: &[TextFile]) -> BTreeMap<String, BTreeSet<String>> {
    let mut types = Types::default();
    for file in files {
        if file.path.starts_with("crates/") && file.path.contains("/src/") {
            types.path.clone_from(&file.path);
            types.visit_file(&syn::parse_file(&file.text).unwrap());
        }
    }
    types.files.retain(|_, files| files.len() > 1);
    types.files
}

/// The types by name, with the files that define them. Those of tests do not count.
#[derive(Default)]
struct Types {
    path: String,
    files: BTreeMap<String, BTreeSet<String>>,
}

impl Types {
    fn add(&mut self, name: &syn::Ident) {
        let files = self.files.entry(name.to_string()).or_default();
        files.insert(self.path.clone());
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_module(item) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.add(&item.ident);
    }
}

/// The places of functions, fields, arguments and variables with a vague name.
fn vague_names(files: &[TextFile]) -> Vec<String> {
    let mut vague = Vague::default();
    for file in files {
        vague.path.clone_from(&file.path);
        vague.visit_file(&syn::parse_file(&file.text).unwrap());
    }
    vague.places
}

/// The places of vague names in files that are visited one after the other.
#[derive(Default)]
struct Vague {
    path: String,
    places: Vec<String>,
}

impl Vague {
    fn add(&mut self, name: &syn::Ident) {
        if VAGUE.iter().any(|vague| name == vague) {
            let line = name.span().start().line;
            self.places.push(format!("{}:{line}: {name}", self.path));
        }
    }
}

impl<'ast> Visit<'ast> for Vague {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.add(&signature.ident);
        syn::visit::visit_signature(self, signature);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(name) = &field.ident {
            self.add(name);
        }
    }

    fn visit_pat_ident(&mut self, variable: &'ast syn::PatIdent) {
        self.add(&variable.ident);
        syn::visit::visit_pat_ident(self, variable);
    }
}

/// The words of all lines that are comments, in small letters.
fn comment_words(files: &[TextFile]) -> Vec<String> {
    files
        .iter()
        .flat_map(|file| file.text.lines())
        .filter_map(|line| line.trim_start().strip_prefix("//"))
        .flat_map(|line| line.split(|c: char| !c.is_alphabetic() && c != '\''))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// How many of 1,000 words are among `counted`, rounded up.
fn per_thousand(words: &[String], counted: &[&str]) -> i64 {
    let hits = words.iter().filter(|word| counted.contains(&word.as_str()));
    i64::try_from((hits.count() * 1000).div_ceil(words.len().max(1))).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        let (path, text) = (path.to_owned(), text.to_owned());
        TextFile { path, text }
    }

    fn number(files: &[TextFile], key: &str) -> i64 {
        let counts = counts(files);
        counts.iter().find(|count| count.key == key).unwrap().number
    }

    #[test]
    fn participles_are_counted_and_nouns_are_not() {
        let names = [
            "crates/a/src/driving.rs",
            "crates/a/src/known.rs",
            "crates/a/src/posted/mod.rs",
            "crates/a/src/queue_speed.rs",
            "crates/a/src/sizing.rs",
        ];
        let files: Vec<TextFile> = names.iter().map(|name| file(name, "")).collect();
        assert_eq!(number(&files, "participle_files"), 3);
    }

    #[test]
    fn a_type_of_two_files_is_counted_once_and_tests_do_not_count() {
        let one = file("crates/a/src/x.rs", "struct Plan; struct Own;");
        let two = file("crates/b/src/y.rs", "mod inner { enum Plan {} }");
        let test = file(
            "crates/b/src/z.rs",
            "#[cfg(test)] mod tests { struct Own; }",
        );
        assert_eq!(number(&[one, two, test], "repeated_types"), 1);
    }

    #[test]
    fn vague_names_are_counted_wherever_they_are_declared() {
        let text = "struct S { known: u8 }\nfn told(found: u8) { let found = S { known: found }; }";
        assert_eq!(number(&[file("crates/a/src/x.rs", text)], "vague_names"), 4);
    }

    #[test]
    fn pronouns_are_a_share_of_the_words_of_comments() {
        let text = "/// What it is.\nfn it() {} // it\n// Who and whose here.\n";
        let files = [file("crates/a/src/x.rs", text)];
        assert_eq!(number(&files, "it_per_thousand"), 143);
        assert_eq!(number(&files, "what_who_whose_per_thousand"), 429);
    }

    #[test]
    fn a_count_may_fall_and_not_rise() {
        let text = "# head\nparticiple_files = 2\n";
        let committed: toml::Table = text.parse().unwrap();
        let count = |number| Count {
            key: "participle_files",
            number,
            places: Vec::new(),
        };
        assert_eq!(raised(&[count(3)], &committed).len(), 1);
        assert_eq!(raised(&[count(2)], &committed), vec![]);
        assert_eq!(lowered(text, &[count(1)]), "# head\nparticiple_files = 1\n");
        assert_eq!(lowered(text, &[count(3)]), text);
    }
}
