//! `tailbound apply --container NAME`, on a container of runc.

use tailbound_linux::scheduling::{SchedulingSetting, scheduling_of};

use crate::bench::Bench;
use crate::container::Container;

#[test]
fn a_container_is_reserved_by_its_name_alone() {
    let test = "a_container_is_reserved_by_its_name_alone";
    let Some(bench) = Bench::enforcing(test) else {
        return;
    };
    let Some(container) = Container::findable("runc", test) else {
        return;
    };
    let name = container.name.as_str();
    let apply = ["apply", "--container", name, "-b", "3ms", "-p", "10ms"];
    let on_its_cpu = ["--cpus", "1", "--priority", "50"];
    let apply: Vec<&str> = apply.into_iter().chain(on_its_cpu).collect();
    let absent = format!("there is no container \"{name}\" that runs");
    bench.run(&apply).expect(1, &[&absent, "podman ps"]);

    container.start();
    let reserved = || container.processes(true);
    let dry: Vec<&str> = apply.iter().copied().chain(["--dry-run"]).collect();
    bench.run(&dry).expect(0, &["SCHED_FIFO", name]);
    assert!(reserved().is_empty(), "a dry run changes nothing");
    let in_force = format!("in force until `tailbound revert {name}`");
    bench.run(&apply).expect(0, &[&in_force]);
    let members = reserved();
    assert_eq!(members.len(), 1);
    let policy = |pid: u32| scheduling_of(pid).unwrap();
    assert!(matches!(
        policy(members[0]),
        SchedulingSetting::Fifo { .. }
    ));
    bench.run(&["status"]).expect(0, &[name, "3ms", "in force"]);

    bench
        .run(&["revert", name])
        .expect(0, &[&format!("taken back: {name}")]);
    assert!(reserved().is_empty());
    assert!(matches!(
        policy(members[0]),
        SchedulingSetting::Other { .. }
    ));
    container.delete();
    bench.assert_clean(name);
}
