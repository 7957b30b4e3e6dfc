//! Since when agents say that tasks are stopped.

use super::*;

fn joined(domain: &str) -> AgentEvent {
    AgentEvent::Joined {
        domain: domain.into(),
        number: 0,
    }
}

#[test]
fn what_an_agent_says_counts_from_its_answer_to_the_next_start() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    // Nobody has said anything of the initial mode.
    assert_eq!(manager.said_stopped("a", "a-rest"), None);
    // A liar says what an honest agent says.
    host.manner("a", Manner::Lies);
    let before = host.now();
    manager.change_to(&COMMAND, "rest").unwrap();
    let said_at = manager.said_stopped("a", "a-run").unwrap();
    assert!(before < said_at && said_at <= host.now());
    assert_eq!(manager.said_stopped("a", "a-rest"), None);
    assert_eq!(manager.said_stopped("a", "a-always"), None);
    manager.change_to(&COMMAND, "run").unwrap();
    assert_eq!(manager.said_stopped("a", "a-run"), None);
    assert!(manager.said_stopped("a", "a-rest").is_some());
}

#[test]
fn an_agent_that_is_told_what_should_hold_says_it_of_all_other_tasks() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    host.later(10, joined("a"));
    settle(&host, &mut manager);
    for task in ["a-rest", "a-off", "a-full"] {
        assert!(manager.said_stopped("a", task).is_some(), "{task}");
    }
    assert_eq!(manager.said_stopped("a", "a-run"), None);
}

#[test]
fn what_is_in_doubt_is_said_no_more() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    let said = |manager: &HostModeManager<FakeHost, FakeHost, FakeHost>| {
        let since = manager.said_stopped("c", "c-run");
        since.is_some()
    };
    manager.change_to(&COMMAND, "rest").unwrap();
    assert!(said(&manager));
    // Gone, and whoever comes in its place has said nothing yet.
    let domain = "c".to_owned();
    host.later(10, AgentEvent::Left { domain });
    settle(&host, &mut manager);
    assert!(!said(&manager));
    host.later(10, joined("c"));
    settle(&host, &mut manager);
    assert!(said(&manager));
    // One that hangs is told to go back, and may do so at any time.
    for manner in [Manner::Hangs, Manner::Fails] {
        host.manner("c", manner);
        manager.change_to(&COMMAND, "off").unwrap();
        assert!(!said(&manager), "{manner:?}");
        host.manner("c", Manner::Obeys);
        manager.change_to(&COMMAND, "rest").unwrap();
        host.later(10, joined("c"));
        settle(&host, &mut manager);
        assert!(said(&manager));
    }
}
