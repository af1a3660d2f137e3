//! A fleet that comes back after an outage: kubelet calls, the driver asks, the cloud answers, by the driver's
//! own rules.

use super::clock::{Agenda, Chance, Micros, SECOND, micros, millis, span};
use super::cloud::{Ask, Cloud, CloudSetting, Phase, Reply, Second};
use super::machine::{COUNTS_FOR, Line, Machine};
use incloud_disk::model::cloud::access::{Limits, Timeouts};
use incloud_disk::model::cloud::asking::again::{Next, Tried, Tries};
use incloud_disk::model::cloud::asking::gate::{Booked, CallTime, Heard, LOOK_AGAIN};
use incloud_disk::model::cloud::asking::places::Capacity;
use incloud_disk::model::cloud::asking::{session, usual};
use incloud_disk::model::pauses::{Looks, jittered};
use std::time::Duration;

/// Which process calls attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// Each node's kubelet.
    Kubelets,
    /// The one controller-manager, for all nodes.
    ControllerManager,
}

#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub seed: u64,
    pub nodes: usize,
    pub volumes: usize,
    pub caller: Caller,
    pub limits: Limits,
    pub cloud: CloudSetting,
    /// So long after the cloud is back it is over, whatever is not attached.
    pub most: Duration,
}

/// What came of it; moments are seconds after the cloud was back.
#[derive(Debug)]
pub struct Outcome {
    pub volumes: usize,
    /// When each volume's call said that it is attached, in order.
    pub attached: Vec<f64>,
    pub seconds: Vec<Second>,
    pub logins: u64,
    pub attaches: u64,
    /// Calls that failed after the cloud was back.
    pub failures: u64,
    pub events: u64,
}

/// kubelet's and the controller-manager's pause after a failed call: it doubles.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const LONGEST_BACKOFF: Duration = Duration::from_secs(122);

/// How often both look whether something is to be done.
const RECONCILER: Duration = Duration::from_millis(100);

/// The pods come in this time after the cloud has gone.
const PODS_COME: Duration = Duration::from_secs(60);

/// The time of an attach, as the driver has it by default.
const DEADLINE: Duration = Duration::from_secs(180);

const TOKEN_LIFE: u64 = 3600;

/// Where a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// kubelet's pause, or its end.
    Uncalled,
    /// Another call logs in.
    Login,
    /// The service is left alone.
    Closed,
    /// In the queue of its server, then of all.
    OwnLine,
    AllLine,
    /// It has its place in the row.
    Row,
    /// It was sent.
    Sent,
    /// A pause; then it asks, or its time is over.
    Pause,
    Over,
}

#[derive(Debug)]
struct Call {
    node: u32,
    at: At,
    /// Each wait has a number, so that one that is over wakes no later one.
    wait: u32,
    backoff: Duration,
    begin: Micros,
    end: Micros,
    number: u64,
    has_asked: bool,
    has_turn: bool,
    token: u64,
    ask: Ask,
    /// What was to be asked when there was no token.
    then: Ask,
    tries: Tries,
    reply: Reply,
    sent: Micros,
    looks: Option<Looks>,
    asked: Option<Micros>,
    /// A note of a request is with the volume.
    is_noted: bool,
    attached: Option<Micros>,
}

struct Fleet {
    setting: Setting,
    now: Micros,
    agenda: Agenda,
    chance: Chance,
    cloud: Cloud,
    machines: Vec<Machine>,
    knows_server: Vec<bool>,
    calls: Vec<Call>,
    missing: usize,
    failures: u64,
    back: Micros,
}

/// Plays a fleet's recovery.
pub fn play(setting: Setting) -> Outcome {
    let mut chance = Chance::new(setting.seed);
    let all = setting.nodes * setting.volumes;
    let machines = if setting.caller == Caller::Kubelets { setting.nodes } else { 1 };
    // Each machine's token ends in the outage.
    let machines = (0..machines).map(|_| Machine::new(100 + chance.some_of(PODS_COME) / SECOND));
    let machines: Vec<_> = machines.collect();
    let call = |n: usize| Call {
        node: u32::try_from(n / setting.volumes).expect("so many nodes"),
        at: At::Uncalled,
        wait: 0,
        backoff: FIRST_BACKOFF,
        begin: 0,
        end: 0,
        number: 0,
        has_asked: false,
        has_turn: false,
        token: 0,
        ask: Ask::Volume,
        then: Ask::Volume,
        tries: Tries::of(true),
        reply: Reply::Done,
        sent: 0,
        looks: None,
        asked: None,
        is_noted: false,
        attached: None,
    };
    let mut fleet = Fleet {
        cloud: Cloud::new(setting.cloud, setting.nodes, all),
        knows_server: vec![false; setting.nodes],
        calls: (0..all).map(call).collect(),
        back: micros(setting.cloud.outage),
        setting,
        now: 0,
        agenda: Agenda::default(),
        chance,
        machines,
        missing: all,
        failures: 0,
    };
    for who in 0..u32::try_from(all).expect("so many volumes") {
        let at = fleet.chance.some_of(PODS_COME);
        fleet.agenda.add(at, who, 0);
    }
    let end = fleet.back + micros(setting.most);
    while fleet.missing > 0
        && let Some((at, who, wait)) = fleet.agenda.next()
        && at <= end
    {
        fleet.now = at;
        if who & OF_A_MACHINE == 0 {
            if fleet.calls[who as usize].wait == wait {
                fleet.turn(who);
            }
        } else {
            fleet.let_in(who & !OF_A_MACHINE);
        }
    }
    fleet.outcome()
}

/// Of a moment that concerns a machine's queues.
const OF_A_MACHINE: u32 = 1 << 31;

impl Fleet {
    fn outcome(self) -> Outcome {
        let seconds = |at: Micros| span(at.saturating_sub(self.back)).as_secs_f64();
        let mut attached: Vec<_> =
            self.calls.iter().filter_map(|call| call.attached).map(seconds).collect();
        attached.sort_by(f64::total_cmp);
        Outcome {
            volumes: self.calls.len(),
            attached,
            seconds: self.cloud.seconds,
            logins: self.cloud.logins,
            attaches: self.cloud.attaches,
            failures: self.failures,
            events: self.agenda.count(),
        }
    }

    fn call(&mut self, who: u32) -> &mut Call {
        &mut self.calls[who as usize]
    }

    fn place_of(&self, who: u32) -> usize {
        match self.setting.caller {
            Caller::Kubelets => self.calls[who as usize].node as usize,
            Caller::ControllerManager => 0,
        }
    }

    fn machine(&mut self, who: u32) -> &mut Machine {
        let place = self.place_of(who);
        &mut self.machines[place]
    }

    fn time_of(&self, who: u32) -> CallTime {
        let call = &self.calls[who as usize];
        let left = span(call.end.saturating_sub(self.now));
        CallTime { left, total: DEADLINE, has_asked: call.has_asked }
    }

    /// The call waits from now on, and is woken at this moment if nothing wakes it before.
    fn wait(&mut self, who: u32, at: At, until: Micros) {
        let call = self.call(who);
        call.at = at;
        call.wait = call.wait.wrapping_add(1);
        let wait = call.wait;
        self.agenda.add(until, who, wait);
    }

    /// A pause within the call's time: then it asks.
    fn pause(&mut self, who: u32, pause: Duration) {
        let end = self.call(who).end;
        let until = self.now.saturating_add(micros(pause));
        if until >= end { self.wait(who, At::Over, end) } else { self.wait(who, At::Pause, until) }
    }

    fn turn(&mut self, who: u32) {
        match self.call(who).at {
            At::Uncalled => self.begin(who),
            At::Login => self.waited_for_login(who),
            At::OwnLine | At::AllLine | At::Over => self.fail(who),
            At::Row => self.send(who),
            At::Sent => self.answered(who),
            At::Closed | At::Pause => self.enter(who),
        }
    }

    fn begin(&mut self, who: u32) {
        let now = self.now;
        let end = now + micros(DEADLINE);
        let call = self.call(who);
        call.begin = now;
        call.end = end;
        call.number = (now << 20) | u64::from(who);
        call.has_asked = false;
        call.has_turn = false;
        call.looks = None;
        call.asked = None;
        call.token = 0;
        let node = call.node as usize;
        let first = if self.knows_server[node] { Ask::Volume } else { Ask::Server };
        self.ask(who, first);
    }

    fn fail(&mut self, who: u32) {
        self.leave_lines(who);
        self.end_turn(who);
        if self.now >= self.back {
            self.failures += 1;
        }
        let pause = self.call(who).backoff;
        self.call(who).backoff = (pause * 2).min(LONGEST_BACKOFF);
        let until = self.now + micros(pause) + self.chance.some_of(RECONCILER);
        self.wait(who, At::Uncalled, until);
    }

    fn succeed(&mut self, who: u32) {
        let now = self.now;
        let call = self.call(who);
        call.wait = call.wait.wrapping_add(1);
        call.attached = Some(now);
        self.missing -= 1;
    }

    /// The next request of the call: it needs a token, and a leave.
    fn ask(&mut self, who: u32, ask: Ask) {
        let call = self.call(who);
        call.ask = ask;
        call.tries = Tries::of(ask.is_repeatable());
        if ask != Ask::Login && call.token == 0 {
            self.find_token(who);
        } else {
            self.enter(who);
        }
    }

    fn is_usable(&self, expires: u64) -> bool {
        expires > 0 && session::is_usable(expires, TOKEN_LIFE, self.now / SECOND)
    }

    /// The machine's token, else the turn to log in. What was to be asked is asked afterwards.
    fn find_token(&mut self, who: u32) {
        let kept = self.machine(who).token;
        let call = self.call(who);
        call.then = call.ask;
        call.tries = Tries::of(call.ask.is_repeatable());
        if self.is_usable(kept) {
            self.call(who).token = kept;
            return self.enter(who);
        }
        let machine = self.machine(who);
        if machine.logs_in.is_none() {
            machine.logs_in = Some(who);
            self.call(who).has_turn = true;
            return self.log_in(who);
        }
        machine.wait_for_login.push(who);
        let time = self.time_of(who);
        let until = self.now + micros(session::waits_for_login(time.left, time.total));
        self.wait(who, At::Login, until);
    }

    /// The other login does not come; where the cloud is not well it is waited for to the end.
    fn waited_for_login(&mut self, who: u32) {
        let end = self.call(who).end;
        if self.now >= end {
            self.machine(who).wait_for_login.retain(|one| *one != who);
            return self.fail(who);
        }
        if self.machine(who).gate.is_well() {
            return self.log_in(who);
        }
        self.wait(who, At::Login, end);
    }

    /// This call logs in: it has the turn, or has waited long enough for another.
    fn log_in(&mut self, who: u32) {
        self.machine(who).wait_for_login.retain(|one| *one != who);
        self.ask(who, Ask::Login);
    }

    fn end_turn(&mut self, who: u32) {
        if !std::mem::take(&mut self.call(who).has_turn) {
            return;
        }
        let machine = self.machine(who);
        machine.logs_in = None;
        let mut waiting = std::mem::take(&mut machine.wait_for_login);
        let kept = machine.token;
        if self.is_usable(kept) {
            for one in waiting {
                self.call(one).token = kept;
                let until = self.now + self.chance.some_of(Duration::from_millis(10));
                self.wait(one, At::Pause, until);
            }
        } else if !waiting.is_empty() {
            let next = waiting.swap_remove(self.chance.below(waiting.len()));
            let machine = self.machine(who);
            machine.wait_for_login = waiting;
            machine.logs_in = Some(next);
            self.call(next).has_turn = true;
            self.log_in(next);
        }
    }

    /// As the driver's limiter does it: the service is open, then a place in the queue, then one in the row.
    fn enter(&mut self, who: u32) {
        self.machine(who).wait_for_service.retain(|one| *one != who);
        let (service, now) = (self.call(who).ask.service(), millis(self.now));
        if let Some((wait, _)) = self.machine(who).gate.closed(service, now) {
            return self.wait_for_service(who, wait);
        }
        match self.call(who).ask {
            Ask::Attach => self.queue(who, At::OwnLine),
            _ => self.queue(who, At::AllLine),
        }
    }

    fn wait_for_service(&mut self, who: u32, wait: Duration) {
        if wait >= self.time_of(who).left {
            return self.fail(who);
        }
        self.machine(who).wait_for_service.push(who);
        let until = self.now + micros(wait) + self.chance.some_of(LOOK_AGAIN);
        self.wait(who, At::Closed, until);
    }

    fn room(&self, place: usize, line: At) -> Capacity {
        let limits = self.setting.limits;
        if line == At::OwnLine {
            return Capacity { at_once: limits.at_once.div_ceil(2), counts_for: None };
        }
        let at_once = self.machines[place].gate.at_once(limits);
        Capacity { at_once, counts_for: Some(COUNTS_FOR) }
    }

    fn line(&mut self, who: u32, at: At) -> &mut Line {
        let (node, ask) = (self.call(who).node, self.call(who).ask);
        let machine = self.machine(who);
        match at {
            At::OwnLine => machine.own.entry(node).or_default(),
            _ if ask.is_read() => &mut machine.reads,
            _ => &mut machine.changes,
        }
    }

    fn queue(&mut self, who: u32, at: At) {
        let room = self.room(self.place_of(who), at);
        let (number, now) = (self.call(who).number, self.now);
        if self.line(who, at).enter(number, who, room, now) {
            return self.inside(who, at);
        }
        let patience = self.patience(who);
        let until = self.now + micros(patience);
        self.wait(who, at, until);
    }

    fn patience(&mut self, who: u32) -> Duration {
        let (time, limits) = (self.time_of(who), self.setting.limits);
        self.machine(who).gate.patience(time, limits)
    }

    /// It has got its place in a queue.
    fn inside(&mut self, who: u32, at: At) {
        if at == At::OwnLine { self.queue(who, At::AllLine) } else { self.book(who) }
    }

    fn book(&mut self, who: u32) {
        let (service, now) = (self.call(who).ask.service(), millis(self.now));
        let (patience, limits) = (self.patience(who), self.setting.limits);
        match self.machine(who).gate.book(service, now, limits, patience) {
            Booked::After(wait) => {
                let until = self.now + micros(wait);
                self.wait(who, At::Row, until);
            }
            Booked::TooLate => self.fail(who),
            Booked::Closed(wait, _) => {
                self.leave_lines(who);
                self.wait_for_service(who, wait);
            }
        }
    }

    fn leave_lines(&mut self, who: u32) {
        let number = self.call(who).number;
        if self.call(who).ask == Ask::Attach {
            self.line(who, At::OwnLine).leave(number);
        }
        self.line(who, At::AllLine).leave(number);
        let place = u32::try_from(self.place_of(who)).expect("so many");
        self.let_in(place);
    }

    /// Those that wait in a machine's queues, and have room now.
    fn let_in(&mut self, place: u32) {
        let (place, now) = (place as usize, self.now);
        let (own, all) = (self.room(place, At::OwnLine), self.room(place, At::AllLine));
        let machine = &mut self.machines[place];
        let mut inside = Vec::new();
        for line in machine.own.values_mut() {
            while let Some(who) = line.next(own, now) {
                inside.push((who, At::OwnLine));
            }
        }
        for line in [&mut machine.reads, &mut machine.changes] {
            while let Some(who) = line.next(all, now) {
                inside.push((who, At::AllLine));
            }
        }
        // What it sleeps until it looks again is less than what anything else takes, and is left out.
        for (who, at) in inside {
            let call = self.call(who);
            call.wait = call.wait.wrapping_add(1);
            self.inside(who, at);
        }
    }

    fn send(&mut self, who: u32) {
        let now = self.now;
        let number = self.call(who).number;
        if self.call(who).ask == Ask::Attach {
            self.line(who, At::OwnLine).works(number, now);
        }
        self.line(who, At::AllLine).works(number, now);
        let call = self.call(who);
        call.has_asked = true;
        call.sent = now;
        let (ask, host, token, end) = (call.ask, call.node as usize, call.token, call.end);
        let is_over = token < now / SECOND;
        let timeouts = Timeouts::default();
        let limit = if ask.is_read() { timeouts.of_a_read() } else { timeouts.of_a_change() };
        let limit = (now + micros(limit)).min(end);
        let (at, reply) = self.cloud.take(now, ask, host, who as usize, is_over, &mut self.chance);
        let is_late = at > limit;
        self.call(who).reply = if is_late { Reply::TimedOut } else { reply };
        let until = at.min(limit);
        if until > now + micros(COUNTS_FOR) {
            let place = u32::try_from(self.place_of(who)).expect("so many");
            self.agenda.add(now + micros(COUNTS_FOR), OF_A_MACHINE | place, 0);
        }
        self.wait(who, At::Sent, until);
    }

    /// As the driver's HTTP does it.
    fn answered(&mut self, who: u32) {
        let call = &self.calls[who as usize];
        let (service, sent, reply) = (call.ask.service(), millis(call.sent), call.reply);
        let (limits, now) = (self.setting.limits, millis(self.now));
        let (heard, became) = match reply {
            Reply::Full(pause) => {
                (Heard::Full, Tried::Answered { status: 429, asked_for: Some(pause) })
            }
            Reply::NotReached => (Heard::Failure("connection refused"), Tried::NotReached),
            Reply::TimedOut => (Heard::Failure("timed out"), Tried::Unknown),
            Reply::Unauthorized => {
                (Heard::Answer, Tried::Answered { status: 401, asked_for: None })
            }
            Reply::Done | Reply::Volume(_) => {
                (Heard::Answer, Tried::Answered { status: 200, asked_for: None })
            }
        };
        let share = self.chance.share();
        self.machine(who).gate.report(service, heard, sent, now, limits, share);
        self.leave_lines(who);
        if self.machine(who).gate.closed(service, now).is_none() {
            self.wake_for_service(who, service);
        }
        let left = self.time_of(who).left;
        let next = self.call(who).tries.after(became, left);
        match next {
            Next::Nothing => self.heard(who),
            Next::Again(pause) => {
                let share = self.chance.share();
                self.pause(who, jittered(pause, share));
            }
            Next::AgainTogether(pause) => {
                let share = self.chance.share();
                let pause = self.machine(who).gate.refused(pause, sent, now, limits, share);
                self.pause(who, pause);
            }
        }
    }

    /// Those that wait for the service look again soon.
    fn wake_for_service(&mut self, who: u32, service: &'static str) {
        let waiting = self.machine(who).wait_for_service.clone();
        for one in waiting {
            if self.call(one).ask.service() == service {
                let until = self.now + self.chance.some_of(LOOK_AGAIN);
                self.wait(one, At::Closed, until);
            }
        }
    }

    /// The answer is there, or what there is instead.
    fn heard(&mut self, who: u32) {
        let reply = self.call(who).reply;
        let ask = self.call(who).ask;
        if reply == Reply::Unauthorized {
            let refused = self.call(who).token;
            let machine = self.machine(who);
            if machine.token == refused {
                machine.token = 0;
            }
            self.call(who).token = 0;
            return self.find_token(who);
        }
        let failed = !matches!(reply, Reply::Done | Reply::Volume(_));
        match ask {
            // Whether it was taken is open: the next look tells.
            Ask::Attach if reply == Reply::TimedOut => {}
            // The note stays; a later call removes it.
            Ask::EndNote if failed => return self.succeed(who),
            _ if failed => return self.fail(who),
            _ => {}
        }
        if ask == Ask::Login {
            return self.logged_in(who);
        }
        self.go_on(who, ask, reply);
    }

    fn logged_in(&mut self, who: u32) {
        let expires = self.now / SECOND + TOKEN_LIFE;
        self.call(who).token = expires;
        self.machine(who).token = expires;
        self.end_turn(who);
        let then = self.call(who).then;
        self.ask(who, then);
    }

    /// The requests of the driver's attach, in its order.
    fn go_on(&mut self, who: u32, ask: Ask, reply: Reply) {
        match (ask, reply) {
            (Ask::Server, _) => {
                let node = self.call(who).node as usize;
                self.knows_server[node] = true;
                self.ask(who, Ask::Volume);
            }
            (Ask::Volume, Reply::Volume(Phase::Attached)) => {
                let now = self.now;
                if let Some(asked) = self.call(who).asked {
                    let took = (now - asked) / 1000;
                    usual::add(&mut self.machine(who).pace, took);
                }
                if self.call(who).is_noted {
                    self.ask(who, Ask::EndNote);
                } else {
                    self.succeed(who);
                }
            }
            (Ask::Volume, _) if self.call(who).looks.is_none() => self.ask(who, Ask::Mapping),
            (Ask::Volume, _) => self.look_later(who),
            (Ask::Mapping, _) if self.cloud.phase(who as usize, self.now) == Phase::Free => {
                self.ask(who, Ask::Note);
            }
            (Ask::Mapping, _) => {
                self.call(who).looks = Some(Looks::at_others(DEADLINE));
                self.look_later(who);
            }
            (Ask::Note, _) => {
                self.call(who).is_noted = true;
                self.ask(who, Ask::Attach);
            }
            (Ask::Attach, _) => {
                let usual = usual::usual(&self.machine(who).pace).map(Duration::from_millis);
                let now = self.now;
                let call = self.call(who);
                call.asked = Some(now);
                call.looks = Some(Looks::at(usual, DEADLINE));
                self.look_later(who);
            }
            (Ask::EndNote, _) => {
                self.call(who).is_noted = false;
                self.succeed(who);
            }
            (Ask::Login, _) => {}
        }
    }

    fn look_later(&mut self, who: u32) {
        let call = self.call(who);
        call.ask = Ask::Volume;
        call.tries = Tries::of(true);
        let pause = call.looks.as_mut().and_then(Iterator::next).unwrap_or_default();
        self.pause(who, pause);
    }
}

impl Outcome {
    /// When this part of all volumes was attached, in seconds.
    pub fn time_to(&self, part: f64) -> Option<f64> {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of what is counted"
        )]
        let count = (self.volumes as f64 * part).ceil() as usize;
        self.attached.get(count.max(1) - 1).copied()
    }

    pub fn peak(&self) -> u32 {
        self.seconds.iter().map(|second| second.asked).max().unwrap_or(0)
    }

    pub fn asked(&self) -> u64 {
        self.seconds.iter().map(|second| u64::from(second.asked)).sum()
    }

    /// The share of requests that the cloud had no room for.
    #[allow(clippy::cast_precision_loss, reason = "a share")]
    pub fn refused(&self) -> f64 {
        let refused: u64 = self.seconds.iter().map(|second| u64::from(second.refused)).sum();
        refused as f64 / self.asked().max(1) as f64
    }
}
