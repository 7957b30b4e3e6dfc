//! A section of a crate above the model: `[topics.NAME]`, each from one domain to others.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_model::{Check, DescriptionFormat, KeyPath, Section, SectionKind, to_toml};
use tailbound_time::Duration;

/// Messages between domains, by topic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
struct Topics(
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))] BTreeMap<String, Topic>,
);

/// A topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Topic {
    /// The domain that publishes.
    publisher: String,
    /// The distance between messages.
    period: Duration,
    /// The age above which a message is dropped.
    #[serde(default)]
    lifetime: Option<Duration>,
}

impl Section for Topics {
    const KEY: &'static str = "topics";

    fn check(&self, check: &mut Check<'_>) {
        let domains = check.names("domains");
        for (name, topic) in &self.0 {
            let place = KeyPath::root().key(Self::KEY).key(name);
            check.reference(
                &place.key("publisher"),
                "domain",
                &topic.publisher,
                &domains,
            );
            check.above_zero(&place.key("period"), "the period", topic.period);
        }
    }
}

static FORMAT: DescriptionFormat = DescriptionFormat::with(&[SectionKind::of::<Topics>()]);

const BUS: &str = r#"
schema_version = 1
name = "bus"
[hosts.local]
cpus = [0]
[domains.sensor]
kind = "process"
builtin = "cpu-hog"
cpus = [0]
"#;

fn problems(topics: &str) -> String {
    let text = format!("{BUS}{topics}");
    FORMAT.check(&text, "bus.toml").problems.to_string()
}

#[test]
fn a_section_is_read_and_written_by_a_format_that_has_it() {
    let text = format!("{BUS}[topics.speed]\npublisher = \"sensor\"\nperiod = \"10ms\"\n");
    let loaded = FORMAT.load_text(text, "bus.toml").unwrap();
    let description = loaded.description;
    let mut topics: Topics = description.section();
    assert_eq!(topics.0["speed"].period, Duration::from_millis(10));
    let written = to_toml(&description).unwrap();
    let again = FORMAT.check(&written, "again.toml").description;
    assert_eq!(again.as_ref(), Some(&description));

    topics.0.get_mut("speed").unwrap().period = Duration::from_millis(20);
    let mut changed = description.clone();
    changed.sections.set(&topics).unwrap();
    assert_ne!(changed, description);
    let written = to_toml(&changed).unwrap();
    let again = FORMAT.check(&written, "again.toml").description.unwrap();
    assert_eq!(again.section::<Topics>(), topics);
    changed.sections.remove::<Topics>();
    assert_eq!(changed.section::<Topics>(), Topics::default());
}

#[test]
fn problems_of_a_section_name_their_line_key_and_remedy() {
    assert_eq!(
        problems("[topics.speed]\npublisher = \"sensr\"\nperiod = \"0s\"\n"),
        "bus.toml:11:13: error: topics.speed.publisher: there is no domain `sensr`\n  \
         help: did you mean `sensor`?\n\
         bus.toml:12:10: error: topics.speed.period: the period is zero\n  \
         help: the period is above zero, such as \"10ms\""
    );
    assert_eq!(
        problems("[topics.speed]\npublisher = \"sensor\"\nperiode = \"1ms\"\n"),
        "bus.toml:10:9: error: topics.speed.period: the key `period` is missing\n  \
         help: add `period`: the distance between messages\n\
         bus.toml:12:1: error: topics.speed.periode: unknown key `periode`\n  \
         help: did you mean `period`?"
    );
    let problem = problems("[topics.\"a b\"]\npublisher = \"sensor\"\nperiod = \"1ms\"\n");
    assert!(problem.contains("\"a b\" is not a name"), "{problem}");
    let problem = problems("[topic.speed]\npublisher = \"sensor\"\nperiod = \"1ms\"\n");
    assert!(problem.contains("did you mean `topics`?"), "{problem}");
}

#[test]
fn the_core_of_the_format_refuses_a_section_of_others() {
    let text = format!("{BUS}[topics.speed]\npublisher = \"sensor\"\nperiod = \"1ms\"\n");
    let problem = tailbound_model::parse(&text, "bus.toml")
        .unwrap_err()
        .to_string();
    assert!(
        problem.contains("topics: unknown key `topics`"),
        "{problem}"
    );
}

#[test]
fn the_schema_has_the_section() {
    let topics = &FORMAT.schema()["properties"]["topics"];
    assert_eq!(topics["description"], "Messages between domains, by topic.");
    assert!(FORMAT.schema()["$defs"]["Topic"]["properties"]["lifetime"].is_object());
}
