//! Modes that are added to a description, from a text of their own.

use super::format::DescriptionFormat;
use super::load::{Checked, LONGEST_TEXT};
use super::syntax::syntax_errors;
use super::tree::{SpannedValue, TomlValue, Tree};
use crate::description::Description;
use crate::problem::{Problem, Problems, Severity, SourceText};

/// A description with modes added to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Extended {
    /// All of it.
    pub description: Description,
    /// Its text.
    pub text: String,
    /// The modes that were added.
    pub added: Vec<String>,
    /// Warnings about what was added.
    pub warnings: Problems,
}

impl DescriptionFormat {
    /// The description in `text` with the modes in `fragment`, which holds tables `[modes.NAME]` and
    /// `[domains.DOMAIN.modes.NAME]` alone, none of which `text` has. `file` names the fragment in problems.
    ///
    /// # Errors
    /// All that is wrong, at its place in the fragment.
    pub fn with_modes(&self, text: &str, fragment: &str, file: &str) -> Result<Extended, Problems> {
        let source = SourceText {
            file,
            text: fragment,
        };
        let mut whole = text.to_owned();
        if !whole.ends_with('\n') {
            whole.push('\n');
        }
        let offset = whole.len();
        whole.push_str(fragment);
        // Parsed once; where both do not go together, the description alone tells what is known.
        let parsed = (whole.len() <= LONGEST_TEXT).then(|| Tree::parse(&whole));
        let alone;
        let applied = match &parsed {
            Some((tree, true)) => DescriptionPart {
                tree,
                before: offset,
            },
            _ => {
                alone = Tree::parse(text).0;
                DescriptionPart {
                    tree: &alone,
                    before: usize::MAX,
                }
            }
        };
        let (added, problems) = added(&applied, source);
        if !problems.is_empty() {
            return Err(Problems::new(problems));
        }
        let text = whole.as_str();
        let parse = || parsed.unwrap_or_else(|| Tree::parse(text));
        let Checked {
            description,
            problems,
        } = self.check_parsed(SourceText { file, text }, parse);
        let of_fragment = problems.into_iter().filter_map(|problem| {
            let is_in_fragment = problem.span.start >= offset;
            let counts = is_in_fragment || problem.severity == Severity::Error;
            let span =
                problem.span.start.saturating_sub(offset)..problem.span.end.saturating_sub(offset);
            let Problem {
                severity,
                key,
                message,
                remedy,
                ..
            } = problem;
            counts.then(|| source.problem(severity, span, key, message, remedy))
        });
        let problems = Problems::new(of_fragment.collect());
        match description {
            Some(description) => Ok(Extended {
                description,
                text: whole,
                added,
                warnings: problems,
            }),
            None => Err(problems),
        }
    }
}

/// The modes that a fragment adds, and what in it is not for a fragment.
fn added(whole: &DescriptionPart<'_>, source: SourceText<'_>) -> (Vec<String>, Vec<Problem>) {
    let error = |span, key: &str, message: String, remedy: &str| {
        source.problem(Severity::Error, span, key, message, remedy)
    };
    let (tree, is_toml) = Tree::parse(source.text);
    if !is_toml {
        let wrong = syntax_errors(source.text).into_iter();
        let wrong = wrong.map(|wrong| error(wrong.span, "", wrong.message, &wrong.remedy));
        return (Vec::new(), wrong.collect());
    }
    // What stands before the first header would belong to the last table of the description.
    let mut lines = source.text.lines().map(str::trim_start);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    if first.is_some_and(|line| !line.starts_with('[')) {
        let message = "modes that are added stand in tables of their own".to_owned();
        let remedy = "begin with a header, such as [modes.NAME]";
        return (Vec::new(), vec![error(0..0, "", message, remedy)]);
    }
    let mut problems = Vec::new();
    let only = "give [modes.NAME] and [domains.DOMAIN.modes.NAME]; for all else apply the whole \
                description again";
    let of_description = |table: &'static str| whole.entry(&whole.tree.root, table);
    for (name, span, node) in entries(&tree.root) {
        match name {
            "modes" => {
                let described = of_description("modes");
                whole.complain(described, "modes", node, &mut problems, &error);
            }
            "domains" => {
                for (domain, span, content) in entries(node) {
                    let key = format!("domains.{domain}");
                    let described = of_description("domains");
                    let Some(described) = described.and_then(|it| whole.entry(it, domain)) else {
                        let message = format!("the description has no domain `{domain}`");
                        problems.push(error(span, &key, message, only));
                        continue;
                    };
                    for (part, span, node) in entries(content) {
                        let key = format!("{key}.{part}");
                        if part == "modes" {
                            let described = whole.entry(described, "modes");
                            whole.complain(described, &key, node, &mut problems, &error);
                        } else {
                            let message = "only modes can be added".to_owned();
                            problems.push(error(span, &key, message, only));
                        }
                    }
                }
            }
            _ => {
                let message = "only modes can be added".to_owned();
                problems.push(error(span, name, message, only));
            }
        }
    }
    let modes = tree.names("modes").into_iter().map(str::to_owned);
    let modes: Vec<String> = modes.collect();
    if modes.is_empty() && problems.is_empty() {
        let message = "there is no mode to add".to_owned();
        problems.push(error(0..0, "", message, "add a table [modes.NAME]"));
    }
    (modes, problems)
}

/// What a description has, in a tree that may have more.
struct DescriptionPart<'a> {
    tree: &'a Tree,
    /// What stands from here on is not of the description.
    before: usize,
}

impl<'a> DescriptionPart<'a> {
    /// An entry of a table, if any of it is of the description: a table can be begun by a part of it, and be
    /// given its own header later.
    fn entry(&self, table: &'a SpannedValue, name: &str) -> Option<&'a SpannedValue> {
        let (_, span, node) = entries(table).find(|(key, ..)| *key == name)?;
        (span.start < self.before || self.has_some_of(node)).then_some(node)
    }

    fn has_some_of(&self, node: &SpannedValue) -> bool {
        entries(node).any(|(_, span, inner)| span.start < self.before || self.has_some_of(inner))
    }

    /// Complains of entries that there are already.
    fn complain(
        &self,
        described: Option<&'a SpannedValue>,
        place: &str,
        given: &SpannedValue,
        problems: &mut Vec<Problem>,
        error: &impl Fn(std::ops::Range<usize>, &str, String, &str) -> Problem,
    ) {
        for (name, span, _) in entries(given) {
            if described.is_some_and(|described| self.entry(described, name).is_some()) {
                let message = "there is a mode of this name already".to_owned();
                let remedy = "choose another name; modes that are known are not changed while they are in use";
                problems.push(error(span, &format!("{place}.{name}"), message, remedy));
            }
        }
    }
}

/// The entries of a table, each with the place of its key.
fn entries(
    node: &SpannedValue,
) -> impl Iterator<Item = (&str, std::ops::Range<usize>, &SpannedValue)> {
    let entries = match &node.value {
        TomlValue::Table(entries) => entries.as_slice(),
        _ => &[],
    };
    let each = entries.iter();
    each.map(|(key, node)| (key.name.as_str(), key.span.clone(), node))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    static CORE: DescriptionFormat = DescriptionFormat::with(&[]);

    const CELL: &str = r#"
schema_version = 1
name = "cell"
initial_mode = "run"
hosts.cell.cpus = [0]
[domains.arm]
kind = "process"
pids = [1]
reservation = { budget = "4ms", period = "10ms", cpus = [0], priority = 50 }
agent = {}
[domains.arm.modes.rest]
reservation = { budget = "1ms", period = "10ms", cpus = [0], priority = 50 }
[modes.run]
"#;

    fn wrong(fragment: &str) -> String {
        CORE.with_modes(CELL, fragment, "more.toml")
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn modes_are_added() {
        let fragment = "# more\n[modes.rest]\ndomains = { arm = \"rest\" }\n\
                        [modes.park]\ndomains = { arm = \"park\" }\n[domains.arm.modes.park]\n\
                        reservation = { budget = \"500us\", period = \"10ms\", cpus = [0], priority = 50 }\n";
        let extended = CORE.with_modes(CELL, fragment, "more.toml").unwrap();
        assert_eq!(extended.added, ["park", "rest"]);
        assert_eq!(extended.description.modes.len(), 3);
        // And again, to what there is then.
        let again = CORE
            .with_modes(&extended.text, "[modes.again]\n", "x")
            .unwrap();
        assert_eq!(again.description.modes.len(), 4);
    }

    #[test]
    fn what_is_wrong_is_told_where_it_stands() {
        let refusal = wrong("[modes.rest]\ndomains = { arm = \"fly\" }\n");
        assert!(
            refusal.starts_with("more.toml:2:") && refusal.contains("fly"),
            "{refusal}"
        );
        let refusal = wrong("\n[modes.run]\n");
        assert!(
            refusal.starts_with("more.toml:2:") && refusal.contains("modes.run: there is"),
            "{refusal}"
        );
        let refusal = wrong("[modes.a]\n[domains.arm.modes.rest]\n");
        assert!(
            refusal.contains("domains.arm.modes.rest: there is"),
            "{refusal}"
        );
        for (fragment, says) in [
            ("[modes.rest]\ndomains = {", "more.toml:2:"),
            ("modes.rest = {}\n", "begin with a header"),
            ("", "no mode to add"),
            ("[hosts.cell]\ncpus = [1]\n", "hosts: only modes"),
            (
                "[modes.a]\n[domains.arm]\npids = [2]\n",
                "domains.arm.pids: only modes",
            ),
            ("[modes.a]\n[domains.leg.modes.a]\n", "no domain `leg`"),
            ("[modes.a]\nbudget = 1\n", "more.toml:2:"),
            ("[modes]\na = 3\n", "more.toml:2:"),
        ] {
            let refusal = wrong(fragment);
            assert!(refusal.contains(says), "{fragment:?}: {refusal}");
        }
    }

    #[test]
    fn a_mode_that_is_known_by_a_part_of_it_alone_is_not_changed() {
        let reservation =
            r#"reservations.arm = { budget = "2ms", period = "10ms", cpus = [0], priority = 50 }"#;
        let part = format!(
            "[modes.slow.reservations.arm]\n{}\n",
            "budget = \"2ms\"\nperiod = \"10ms\"\ncpus = [0]\npriority = 50"
        );
        let whole = format!("{CELL}{part}");
        for fragment in ["[modes.slow]\n", "[modes.slow]\ntasks = []\n", &part] {
            let problems = CORE.with_modes(&whole, fragment, "more.toml").unwrap_err();
            let refusal = problems.to_string();
            assert!(
                refusal.contains("modes.slow: there is"),
                "{fragment:?}: {refusal}"
            );
        }
        let inside = format!("{CELL}[modes.slow]\n");
        let fragment = format!("[modes.slow.x]\n[modes.other]\n{reservation}\n");
        let refusal = CORE
            .with_modes(&inside, &fragment, "x")
            .unwrap_err()
            .to_string();
        assert!(refusal.contains("modes.slow: there is"), "{refusal}");
    }

    #[test]
    fn too_much_text_is_refused() {
        let long = format!("{CELL}#{}\n", "x".repeat(LONGEST_TEXT));
        let refusal = CORE
            .with_modes(&long, "[modes.rest]\n", "x")
            .unwrap_err()
            .to_string();
        assert!(refusal.contains("longer than"), "{refusal}");
    }

    #[test]
    fn a_description_whose_modes_stand_in_one_line_takes_no_others() {
        let inline = CELL.replace("[modes.run]\n", "");
        let inline = inline.replace("hosts.cell.cpus", "modes = { run = {} }\nhosts.cell.cpus");
        let extended = CORE.with_modes(&inline, "[modes.rest]\n", "more.toml");
        assert!(extended.is_err());
    }

    proptest! {
        #[test]
        fn no_fragment_panics(fragment in "[\\[\\]a-z.=\\n{}\" 0-9#]{0,80}") {
            let _any = CORE.with_modes(CELL, &fragment, "more.toml");
        }

        #[test]
        fn no_mutation_panics(at in any::<prop::sample::Index>(), byte in 0_u8..128) {
            let mut fragment = b"[modes.rest]\ndomains = { arm = \"rest\" }\n".to_vec();
            let at = at.index(fragment.len());
            fragment[at] = byte;
            let _any = CORE.with_modes(CELL, &String::from_utf8_lossy(&fragment), "more.toml");
        }
    }
}
