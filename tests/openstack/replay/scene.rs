//! A server set up as the recorded cloud was, and the cases played against it.

use super::compare::{Mask, differences, names_in, our_target};
use super::document::{Case, Exchange, json};
use crate::client::{Answer, Connection};
use crate::server::{Delays, Server, World};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Ids of the recorded cloud that stand in the transcripts as they are.
pub(super) const FIRST: &str = "e83f9790-a48d-42dd-9efc-35945741fa16";
pub(super) const SECOND: &str = "3161d387-8dcd-4adc-9dbb-8694045af37d";
pub(super) const THIRD: &str = "c75c6e67-8567-4832-9808-cc0a4ab1ec10";
pub(super) const FOURTH: &str = "68fe1be3-6b39-4656-ba7f-403cc9a9a269";
pub(super) const AT_B: &str = "a14a1f2a-ceea-4bf6-8d7d-e9e22528228d";

/// A server, and what its ids are called in the transcripts.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) server: Server,
    cases: Vec<Case>,
    played: BTreeSet<String>,
    /// What stands in the transcripts, and what it is here.
    names: BTreeMap<String, String>,
    /// Values of the header `X-Auth-Token`, by whose it is.
    tokens: BTreeMap<String, String>,
    /// The last answer.
    pub(super) last: Option<Answer>,
}

impl Scene {
    /// The recorded cloud with time that stands still: two servers, and the volumes of a section.
    pub(super) fn new(section: char, volumes: &[&str]) -> Self {
        let cases = super::document::cases().into_iter().filter(|case| case.section == section);
        let delays = Delays {
            reserve: 0,
            record: 0,
            reserved: 100,
            attaching: 1000,
            detaching: 1000,
            row: 5,
            extend: 1000,
            cleanup: 1000,
        };
        let mut world = World::demo().frozen().delays(delays).server("node-a").server("node-b");
        let mut scene_names = BTreeMap::new();
        let mut call = |name: &str, id: String| scene_names.insert(format!("<{name}>"), id);
        call("SERVER_A", world.server_id("node-a"));
        call("SERVER_B", world.server_id("node-b"));
        call("PROJECT", world.identity.project_id("demo"));
        call("USER", world.identity.user_id("demo"));
        call("TRUSTEE", world.identity.user_id("other"));
        call("NONEXISTENT", "00000000-0000-4000-8000-00000000dead".to_owned());
        for name in volumes {
            let id = crate::server::ids::uuid();
            world.add_volume(name, &id, 1, "demo");
            call(&name.to_uppercase(), id);
        }
        let people = [("demo", "demo"), ("other", "other")];
        let mut tokens = BTreeMap::new();
        for (user, project) in people {
            tokens.insert(user.to_owned(), world.token(user, project));
        }
        tokens.insert("wrong".to_owned(), "gAAAAABnonsense".to_owned());
        let server = Server::start(world);
        let (played, last) = (BTreeSet::new(), None);
        Self { server, cases: cases.collect(), played, names: scene_names, tokens, last }
    }

    /// What stands in the transcripts as `text` is `ours` here.
    pub(super) fn call(&mut self, text: &str, ours: &str) {
        self.names.insert(text.to_owned(), ours.to_owned());
    }

    /// The id behind a name such as `VOL1`.
    pub(super) fn id(&self, name: &str) -> String {
        self.names[&format!("<{name}>")].clone()
    }

    pub(super) fn token(&mut self, of: &str, token: String) {
        self.tokens.insert(of.to_owned(), token);
    }

    /// A case by its name, or by its whole title where the name is not its own.
    pub(super) fn case(&self, name: &str) -> Case {
        let found = self.cases.iter().find(|case| case.title == name || case.name() == name);
        found.unwrap_or_else(|| panic!("no case {name}")).clone()
    }

    /// The titles that begin with a text, in order.
    pub(super) fn titles(&self, begin: &str) -> Vec<String> {
        let fitting = self.cases.iter().filter(|case| case.title.starts_with(begin));
        fitting.map(|case| case.title.clone()).collect()
    }

    /// Plays cases one after another, with demo's token.
    pub(super) fn play(&mut self, names: &[&str]) {
        for name in names {
            self.play_as("demo", name);
        }
    }

    /// Plays a case with this user's token; afterwards all runs to its end if the recorder waited.
    pub(super) fn play_as(&mut self, whose: &str, name: &str) {
        let case = self.case(name);
        let (mut connection, volume) = self.begin(whose, &case);
        let answer = connection.receive().unwrap_or_else(|why| panic!("{name}: {why}"));
        self.end(&case, answer);
        self.check_seen(&case, volume);
    }

    /// Sends a case's request; gives where the answer will come, and how to watch the volume.
    pub(super) fn begin(&mut self, whose: &str, case: &Case) -> (Connection, Option<Watch>) {
        let exchange = case.exchange.as_ref().expect("a request");
        let target = self.ours(&our_target(&exchange.target));
        let body = self.ours(&exchange.body);
        let watch = self.watch(&target, &body);
        let headers: Vec<(String, String)> = exchange
            .headers
            .iter()
            .map(|(name, value)| {
                let own = name == "X-Auth-Token";
                (name.clone(), if own { self.tokens[whose].clone() } else { self.ours(value) })
            })
            .collect();
        let all: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut connection = Connection::open(&self.server.url()).expect("the server");
        connection.send(&exchange.method, &target, &all, &body).expect("sent");
        (connection, watch)
    }

    /// Compares an answer with the recorded one.
    pub(super) fn end(&mut self, case: &Case, answer: Answer) {
        let exchange = case.exchange.as_ref().expect("a request");
        let found = self.compare(exchange, &answer);
        assert!(
            found.is_empty(),
            "{}\n  {}\n  ours: {}",
            case.title,
            found.join("\n  "),
            String::from_utf8_lossy(&answer.body)
        );
        self.played.insert(case.title.clone());
        self.last = Some(answer);
    }

    /// A case was played in a way of its own.
    pub(super) fn played(&mut self, case: &Case) {
        self.played.insert(case.title.clone());
    }

    /// What is different about an answer.
    fn compare(&self, exchange: &Exchange, answer: &Answer) -> Vec<String> {
        let mask = self.mask();
        let mut found = mask.headers(&exchange.reply_headers, answer);
        if exchange.status != answer.status {
            found.push(format!("status: recorded {}, ours {}", exchange.status, answer.status));
        }
        self.compare_bodies(&exchange.reply, &answer.body, &mut found);
        found
    }

    /// What is different about a body.
    pub(super) fn compare_bodies(&self, recorded: &str, ours: &[u8], found: &mut Vec<String>) {
        let mask = self.mask();
        let ours_text = String::from_utf8_lossy(ours);
        let recorded = self.ours(recorded);
        match (json(&recorded), json(&ours_text)) {
            (Some(recorded), Some(ours)) => {
                differences("body", &mask.body(&recorded), &mask.body(&ours), found);
            }
            (None, Some(_)) if !recorded.is_empty() => {
                let missing = &names_in(&recorded) - &names_in(&ours_text);
                if !missing.is_empty() {
                    found.push(format!("body: only recorded: {missing:?}"));
                }
            }
            (None, None) if recorded.is_empty() && ours.is_empty() => {}
            _ => found.push(format!("body: recorded {recorded:?}, ours {ours_text:?}")),
        }
    }

    fn mask(&self) -> Mask {
        let world = self.server.world();
        let mut known: BTreeSet<String> = self.names.values().cloned().collect();
        known.extend(world.storage.volumes.iter().map(|volume| volume.id.clone()));
        Mask { base: self.server.url(), known }
    }

    /// A text of the transcripts with our ids in it.
    fn ours(&self, text: &str) -> String {
        let replace = |text: String, (name, id): (&String, &String)| text.replace(name, id);
        self.names.iter().fold(text.to_owned(), replace)
    }

    /// Lets all that was begun come to its end.
    pub(super) fn run(&self) {
        loop {
            let mut world = self.server.world();
            let Some(due) = world.hosts.next_due() else { break };
            let now = world.clock.now();
            world.clock.advance(due.saturating_sub(now));
        }
    }

    /// Lets time pass.
    pub(super) fn pass(&self, milliseconds: u64) {
        self.server.advance(Duration::from_millis(milliseconds));
    }

    /// Watches the volume that a request is about.
    fn watch(&self, target: &str, body: &str) -> Option<Watch> {
        let world = self.server.world();
        let mut volumes = world.storage.volumes.iter();
        let volume = volumes.find(|v| target.contains(&v.id) || body.contains(&v.id))?;
        Some(Watch { volume: volume.id.clone(), from: volume.history.len() - 1 })
    }

    /// All that the recorder saw at Cinder must have been there, in that order.
    pub(super) fn check_seen(&self, case: &Case, watch: Option<Watch>) {
        let (Some(seen), Some(watch)) = (case.seen(), watch) else { return };
        self.run();
        let world = self.server.world();
        let volume = world.storage.volume(&watch.volume).expect("watched");
        let mut passed = volume.history[watch.from..].iter();
        let all = seen.iter().all(|status| passed.any(|known| known == status));
        assert!(all, "{}: seen {seen:?}, ours {:?}", case.title, &volume.history[watch.from..]);
        assert_eq!(seen.last(), Some(&volume.status), "{}: in the end", case.title);
    }

    /// Waits until so many reservations of a device wait at the hosts.
    pub(super) fn wait_for_operations(&self, count: usize) {
        let waited = self
            .server
            .wait_until(Duration::from_secs(10), |world| world.hosts.operations.len() >= count);
        assert!(waited, "the requests did not come as far as the hosts");
    }

    /// Ends the section: every case of it was played.
    pub(super) fn close(self) {
        for case in &self.cases {
            assert!(self.played.contains(&case.title), "{} was not played", case.title);
        }
    }
}

/// A volume, and how long its history was when the watch began.
#[derive(Debug, Clone)]
pub(super) struct Watch {
    volume: String,
    from: usize,
}

impl Watch {
    /// Every status since the watch began.
    pub(super) fn passed(&self, scene: &Scene) -> Vec<String> {
        let world = scene.server.world();
        let volume = world.storage.volume(&self.volume).expect("watched");
        volume.history[self.from..].to_vec()
    }
}
