use super::*;
use crate::fakes::{FakeCloud, FakeDevices, MadeUp};
use std::cell::RefCell;

fn node() -> NodeName {
    NodeName::parse("node").unwrap()
}

fn server(name: &str) -> ServerId {
    ServerId::parse(name).unwrap()
}

/// What is done on a machine that shares its answers.
fn on_a_machine<T>(cloud: &FakeCloud, work: impl FnOnce(&Context<'_>) -> T) -> T {
    MadeUp::with(cloud, &FakeDevices::default()).drive(work)
}

/// At which servers something is done by what is answered there, and what comes of it.
fn done(
    cloud: &FakeCloud,
    known: Option<&str>,
    needs_proof: bool,
    answer: impl Fn(&str) -> Result<u32>,
) -> (Vec<String>, Result<u32>) {
    let acted = RefCell::new(Vec::new());
    let act = |server: Option<&ServerId>| {
        let name = server.map_or("none", ServerId::as_str);
        acted.borrow_mut().push(name.to_owned());
        answer(name)
    };
    let came = on_a_machine(cloud, |cx| {
        if let Some(known) = known {
            cx.store.answers.is_server(&node(), &server(known));
        }
        at_server_of(cx, &node(), Asking::Anew, |_| needs_proof, act)
    });
    (acted.into_inner(), came)
}

#[test]
fn the_server_of_a_moment_ago_is_asked_for_anew_only_where_the_answer_needs_it() {
    let cloud = FakeCloud { is_remote: true, ..FakeCloud::default() };
    cloud.server.replace(Some(server("new")));
    let by_name = |name: &str| Ok(u32::from(name == "new"));
    let ask = |known, needs_proof| done(&cloud, known, needs_proof, by_name);
    let at = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(ask(None, true), (at(&["new"]), Ok(1)));
    assert_eq!(ask(Some("old"), false), (at(&["old"]), Ok(0)));
    assert_eq!(ask(Some("old"), true), (at(&["old", "new"]), Ok(1)));
    assert_eq!(ask(Some("new"), true), (at(&["new"]), Ok(1)), "once");
}

#[test]
fn an_answer_that_needs_proof_is_none_while_the_cloud_is_down_and_a_refusal_stands() {
    let down = FakeCloud { is_remote: true, is_down: true.into(), ..FakeCloud::default() };
    let ask = |needs_proof, answer: fn(&str) -> Result<u32>| {
        let (acted, came) = done(&down, Some("old"), needs_proof, answer);
        assert_eq!(acted.len(), 1);
        came.map_err(|error| error.kind)
    };
    assert_eq!(ask(false, |_| Ok(7)), Ok(7));
    assert_eq!(ask(true, |_| Ok(7)), Err(Kind::Unreachable));
    assert_eq!(ask(true, |_| Err(Error::refused("no"))), Err(Kind::Refused));
    let (acted, came) = done(&down, None, true, |_| Ok(7));
    assert_eq!((acted.len(), came.is_err()), (0, true));
}

#[test]
fn what_was_asked_anew_is_known_to_the_others() {
    let act = |server: Option<&ServerId>| Ok(server.cloned());
    on_a_machine(&FakeCloud { is_remote: true, ..FakeCloud::default() }, |cx| {
        for asking in [Asking::Anew, Asking::Anew, Asking::Shared] {
            let came = at_server_of(cx, &node(), asking, |_| true, act);
            assert_eq!(came, Ok(Some(server("node"))));
            assert_eq!(cx.store.answers.recent_server(&node()), Some(server("node")));
        }
    });
}

#[test]
fn the_servers_side_is_asked_where_its_word_matters() {
    let cloud = FakeCloud::default().with("v-1", 1, &["here"]);
    let settled = cloud.volumes.borrow()[0].clone();
    cloud.is_down.set(true);
    let phases = [VolumePhase::Attaching, VolumePhase::Detaching, VolumePhase::Available];
    let [attaching, detaching, available] = phases.map(|phase| {
        let mut state = settled.clone();
        state.status.phase = phase;
        state
    });
    let needs_asking = |state: &CloudVolume, server: &str, trust| {
        let server = ServerId::parse(server).unwrap();
        on_a_machine(&cloud, |cx| attachment_state(cx, state, &server, trust)).is_err()
    };
    for (state, server, asked) in [
        (&settled, "here", [false, false, false, true]),
        (&settled, "there", [true, true, true, true]),
        (&attaching, "here", [true, false, true, true]),
        (&detaching, "here", [true, true, false, true]),
        (&available, "here", [true, true, true, true]),
    ] {
        let [of_attach, of_detach] =
            [VolumePhase::Attaching, VolumePhase::Detaching].map(Trust::Own);
        let by_trust = [Trust::Listing, of_attach, of_detach, Trust::Both]
            .map(|trust| needs_asking(state, server, trust));
        assert_eq!(by_trust, asked, "{:?} at {server}", state.status);
    }
}

#[test]
fn how_long_a_change_took_is_remembered() {
    on_a_machine(&FakeCloud { is_remote: true, ..FakeCloud::default() }, |cx| {
        let asked = Instant::now();
        note_pace(cx, Change::Detach, asked, asked + Duration::from_millis(300));
        assert_eq!(cx.store.pace.usual(Change::Detach), Some(Duration::from_millis(300)));
        assert_eq!(cx.store.pace.usual(Change::Attach), None);
    });
}
