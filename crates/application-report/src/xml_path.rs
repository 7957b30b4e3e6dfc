//! Paths to values in XML: the part of XPath that names one element or attribute.

use std::str::FromStr;

use roxmltree::{Document, Node};

/// `XmlPath` is a path from the root of a document to elements, or to an attribute of elements:
/// `/report/request[@name="position"]/@mean_ns`. Names are without prefixes of namespaces, and elements are counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlPath {
    steps: Vec<ElementStep>,
    attribute: Option<String>,
}

/// Why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{path}\" is no path: {remedy}")]
pub struct XmlPathError {
    /// The text.
    pub path: String,
    /// The form that would be right.
    pub remedy: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ElementStep {
    name: String,
    conditions: Vec<ElementCondition>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ElementCondition {
    /// The place among those that the conditions before leave, counted from 1.
    Place(usize),
    /// An attribute has a value.
    Attribute { name: String, value: String },
}

impl FromStr for XmlPath {
    type Err = XmlPathError;

    fn from_str(path: &str) -> Result<Self, Self::Err> {
        let wrong = |remedy: &'static str| XmlPathError {
            path: path.to_owned(),
            remedy,
        };
        let mut rest = path;
        let mut steps = Vec::new();
        let mut attribute = None;
        while !rest.is_empty() {
            rest = rest
                .strip_prefix('/')
                .ok_or_else(|| wrong("begin it with a slash, and each step too"))?;
            if let Some(name) = rest.strip_prefix('@') {
                if !is_name(name) || steps.is_empty() {
                    return Err(wrong(
                        "write an attribute once, after an element, as the last step",
                    ));
                }
                attribute = Some(name.to_owned());
                break;
            }
            let (step, after) = element_step(rest).ok_or_else(|| {
                wrong("write steps as NAME, NAME[NUMBER] or NAME[@NAME=\"VALUE\"]")
            })?;
            steps.push(step);
            rest = after;
        }
        match steps.is_empty() {
            true => Err(wrong(
                "begin it with a slash and the name of the root element",
            )),
            false => Ok(Self { steps, attribute }),
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
    !text.is_empty() && text.chars().all(is_letter)
}

/// The step at the start of a text, and the rest of the text.
fn element_step(text: &str) -> Option<(ElementStep, &str)> {
    let end = text.find(['/', '[']).unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    let mut conditions = Vec::new();
    while let Some(inside) = rest.strip_prefix('[') {
        let (condition, after) = element_condition(inside)?;
        conditions.push(condition);
        rest = after.strip_prefix(']')?;
    }
    let name = name.to_owned();
    is_name(&name).then_some((ElementStep { name, conditions }, rest))
}

fn element_condition(text: &str) -> Option<(ElementCondition, &str)> {
    let Some(inside) = text.strip_prefix('@') else {
        let (number, _) = text.split_once(']')?;
        let place = number.parse().ok().filter(|place| *place > 0)?;
        return Some((ElementCondition::Place(place), &text[number.len()..]));
    };
    let (name, value) = inside.split_once('=')?;
    let quote = value
        .chars()
        .next()
        .filter(|quote| "\"'".contains(*quote))?;
    let (value, rest) = value[1..].split_once(quote)?;
    let (name, value) = (name.to_owned(), value.to_owned());
    is_name(&name).then_some((ElementCondition::Attribute { name, value }, rest))
}

impl ElementCondition {
    fn keep<'a, 'input>(&self, nodes: Vec<Node<'a, 'input>>) -> Vec<Node<'a, 'input>> {
        match self {
            Self::Place(place) => nodes.into_iter().skip(place - 1).take(1).collect(),
            Self::Attribute { name, value } => {
                let has = |node: &Node<'_, '_>| attribute_of(*node, name) == Some(value);
                nodes.into_iter().filter(has).collect()
            }
        }
    }
}

/// The value of an attribute by its name, whatever its namespace.
fn attribute_of<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    let mut attributes = node.attributes();
    attributes
        .find(|one| one.name() == name)
        .map(|one| one.value())
}

impl XmlPath {
    /// The values at the path, in the order of the document.
    pub(crate) fn values_in(&self, document: &Document<'_>) -> Vec<String> {
        let mut nodes = vec![document.root()];
        for step in &self.steps {
            // A place is one among the children of the same parent.
            nodes = nodes
                .into_iter()
                .flat_map(|parent| step.children_of(parent))
                .collect();
        }
        match &self.attribute {
            None => nodes.into_iter().map(text_of).collect(),
            Some(name) => {
                let values = nodes
                    .into_iter()
                    .filter_map(|node| attribute_of(node, name));
                values.map(|value| value.trim().to_owned()).collect()
            }
        }
    }
}

impl ElementStep {
    fn children_of<'a, 'input>(&self, parent: Node<'a, 'input>) -> Vec<Node<'a, 'input>> {
        let named = parent
            .children()
            .filter(|node| node.is_element() && node.tag_name().name() == self.name);
        let keep = |nodes, condition: &ElementCondition| condition.keep(nodes);
        self.conditions.iter().fold(named.collect(), keep)
    }
}

/// All text in an element, without the white space around it.
fn text_of(node: Node<'_, '_>) -> String {
    let texts = node.descendants().filter(|one| one.is_text());
    let text: String = texts.filter_map(|one| one.text()).collect();
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn other_texts_are_no_paths() {
        for text in [
            "",
            "/",
            "a",
            "//a",
            "/a/",
            "/@b",
            "/a/@",
            "/a/@b/c",
            "/a[0]",
            "/a[]",
            "/a[1",
            "/a[@b]",
            "/a[@b=c]",
            "/a[@b='c\"]",
            "/a[1]b",
            "/a b",
            "/a:b",
        ] {
            assert!(text.parse::<XmlPath>().is_err(), "{text}");
        }
    }

    #[test]
    fn conditions_follow_each_other() {
        let values = |path: &str| {
            let text = "<a><b c='1'>x</b><b c='2'>y</b><b c='2'>z</b></a>";
            let document = Document::parse(text).unwrap();
            path.parse::<XmlPath>().unwrap().values_in(&document)
        };
        assert_eq!(values("/a/b"), ["x", "y", "z"]);
        assert_eq!(values("/a/b[@c='2'][2]"), ["z"]);
        assert_eq!(values("/a/b[2][@c='1']"), [""; 0]);
        assert_eq!(values("/a/b/@c"), ["1", "2", "2"]);
        assert_eq!(values("/a"), ["xyz"]);
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parser(text in "[/@a-c\\[\\]=\"'1-9é]{0,20}") {
            let _any_outcome = text.parse::<XmlPath>();
        }
    }
}
