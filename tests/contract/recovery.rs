//! A fleet that comes back after an outage of its cloud, on a virtual clock, by the driver's own rules of asking. The
//! long form is `tests/recovery/main.rs`.

#[path = "../recovery/simulation/mod.rs"]
mod simulation;

use simulation::fleet::{Caller, play};
use simulation::scene::scene;

const NODES: usize = 200;
const VOLUMES: usize = 5;

/// Each of them asks for five volumes, and the cloud takes 40 requests a second of all.
#[test]
fn two_hundred_nodes_come_back_and_their_peak_is_bounded() {
    for seed in 1..=3 {
        let setting = scene(seed, NODES, VOLUMES, Caller::Kubelets);
        let outcome = play(setting);
        assert_eq!(outcome.attached.len(), NODES * VOLUMES, "none is left");
        assert_eq!(outcome.attaches, 1000, "each is asked for once");
        assert_eq!(outcome.logins, 200, "one login for all processes of a node");
        let most = setting.cloud.per_second * 3;
        assert!(outcome.peak() <= most, "{} in one second, and not {most}", outcome.peak());
        assert!(outcome.refused() < 0.2, "{} are sent away", outcome.refused());
        let each = outcome.asked() / 1000;
        assert!(each <= 12, "{each} requests for each volume");
    }
}
