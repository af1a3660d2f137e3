//! Whether the cloud answers, knows this machine, and has the same time.

use super::for_root::or_for_root;
use crate::driver::Context;
use crate::model::error::Kind;
use crate::model::report::finding::{Finding, Level};
use crate::model::text::several;
use std::time::Instant;

/// A token's times, and certificates, bear a difference of so many seconds.
const A_LITTLE: u64 = 5;
const FAR: u64 = 300;

pub(super) fn look(cx: &Context<'_>) -> Vec<Finding> {
    let mut found = vec![answer(cx)];
    let is_remote = cx.cloud.capabilities().is_remote;
    match cx.cloud.clock_ahead() {
        Some(ahead) => found.push(clock(ahead)),
        None if is_remote && found.iter().all(|one| one.level == Level::Ok) => {
            found.push(Finding::ok("clock", "the cloud's answers have no date: not compared"));
        }
        None => {}
    }
    found
}

fn answer(cx: &Context<'_>) -> Finding {
    const CHECK: &str = "cloud";
    let kind = cx.cloud.capabilities().name;
    let begin = Instant::now();
    let asked = cx.cloud.server(cx.this_node, cx.deadline).and_then(|server| {
        let attached = match &server {
            Some(server) => cx.cloud.attached_to(server, cx.deadline)?.len(),
            None => 0,
        };
        Ok((server, attached))
    });
    let took = begin.elapsed().as_millis();
    match asked {
        Ok((Some(server), attached)) => Finding::ok(
            CHECK,
            format!(
                "{kind} answered in {took} ms; this machine is {server}, with {}",
                several(attached, "volume", "volumes")
            ),
        ),
        Ok((None, _)) => Finding::error(
            CHECK,
            format!("{kind} answers, and knows no server for node {}", cx.this_node),
            "set node.server_id in the configuration to this machine's id in the cloud; if Kubernetes has another name \
             for the node, node.name too",
        ),
        Err(error) => {
            let fix = error.hint.clone().unwrap_or_else(|| match error.kind {
                Kind::Config => "put the configuration right".into(),
                _ => "is it reachable from this machine, and are the credentials valid?".into(),
            });
            or_for_root(&error, Finding::error(CHECK, &*error.cause, fix.to_string()))
        }
    }
}

/// By how many seconds the cloud is ahead.
fn clock(ahead: i64) -> Finding {
    const CHECK: &str = "clock";
    let (by, where_to) = (ahead.unsigned_abs(), if ahead > 0 { "behind" } else { "ahead of" });
    let found = format!("this machine is {by} s {where_to} the cloud's clock");
    let fix = "let chronyd or systemd-timesyncd set it";
    match by {
        0..=A_LITTLE => Finding::ok(CHECK, "as the cloud's, to a few seconds"),
        _ if by <= FAR => Finding::warning(CHECK, found, fix),
        _ => Finding::error(
            CHECK,
            format!("{found}: tokens seem to be expired, or not valid yet"),
            fix,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_may_differ_a_little() {
        for (ahead, level, words) in [
            (0, Level::Ok, "as the cloud's"),
            (-5, Level::Ok, "as the cloud's"),
            (60, Level::Warning, "60 s behind"),
            (-301, Level::Error, "301 s ahead of"),
        ] {
            let found = clock(ahead);
            assert_eq!(found.level, level, "{ahead}");
            assert!(found.found.contains(words), "{found:?}");
        }
    }
}
