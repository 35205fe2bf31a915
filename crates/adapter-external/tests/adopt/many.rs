//! A thousand processes at once.

use std::collections::{HashMap, HashSet};

use headcount_contract::{ChildLifecycleAdapter, EventKind, Outcome};
use serde_json::json;

use crate::support::{KillOnDrop, Leftovers, Observed};

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_ends_in_random_order_are_each_noticed_and_none_confused() {
    const COUNT: usize = 1000;
    // One shell that starts them all and collects them in any order.
    let line = format!(
        "i=0; while [ $i -lt {COUNT} ]; do sleep 1000 <&- & echo $!; i=$((i+1)); done; exec 1>&-; wait"
    );
    let mut parent = KillOnDrop(
        std::process::Command::new("sh")
            .args(["-c", &line])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut text = String::new();
    let mut out = std::io::BufReader::new(parent.0.stdout.take().unwrap());
    let mut pids: Vec<u32> = Vec::new();
    while pids.len() < COUNT && std::io::BufRead::read_line(&mut out, &mut text).unwrap() > 0 {
        pids.push(text.trim().parse().unwrap());
        text.clear();
    }
    assert_eq!(pids.len(), COUNT);
    let _leftovers = Leftovers::of(&pids);
    let mut observed = Observed::open(json!({"pids": pids}));
    let mut children = HashMap::new();
    while children.len() < COUNT {
        let created = observed
            .event("created", |event| event.kind() == EventKind::Created)
            .await;
        let pid = created
            .details()
            .get("pid")
            .and_then(|pid| pid.as_u64())
            .unwrap();
        children.insert(created.child_id().clone(), u32::try_from(pid).unwrap());
    }
    assert_eq!(
        children.values().copied().collect::<HashSet<_>>(),
        pids.iter().copied().collect()
    );
    assert_eq!(observed.adapter.health().counts["adopted"], 1000);

    let mut order = pids.clone();
    // A fixed shuffle: neighbours in the order are far apart in number.
    order.sort_by_key(|pid| pid.wrapping_mul(2_654_435_761) >> 7);
    // None that whoever runs the tests may have set to be ignored, as `nohup` does with HUP.
    let signals = ["KILL", "TERM", "USR2", "USR1"];
    let expected: HashMap<u32, i64> = order
        .iter()
        .enumerate()
        .map(|(at, &pid)| (pid, [9, 15, 12, 10][at % 4]))
        .collect();
    let killer = {
        let order = order.clone();
        tokio::task::spawn_blocking(move || {
            for (at, signal) in signals.iter().enumerate() {
                let of: Vec<_> = order
                    .iter()
                    .skip(at)
                    .step_by(4)
                    .map(u32::to_string)
                    .collect();
                for some in of.chunks(50) {
                    std::process::Command::new("kill")
                        .arg(format!("-{signal}"))
                        .args(some)
                        .status()
                        .unwrap();
                }
            }
        })
    };
    let mut ended = HashSet::new();
    while ended.len() < COUNT {
        let end = observed
            .event("an end", |event| {
                !matches!(event.kind(), EventKind::Heartbeat)
            })
            .await;
        let pid = children[end.child_id()];
        assert!(ended.insert(end.child_id().clone()), "{pid} ended twice");
        assert_eq!(end.details().get("pid"), Some(json!(pid)));
        if let EventKind::Terminal(outcome) = end.kind() {
            let signal = end
                .details()
                .get("signal")
                .and_then(|signal| signal.as_i64());
            assert_eq!(
                (outcome, signal),
                (Outcome::Failed, Some(expected[&pid])),
                "{pid}"
            );
        } else {
            assert!(!observed.tells_exit_status(), "{end:?}");
        }
    }
    killer.await.unwrap();
}
