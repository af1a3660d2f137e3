//! The cloud: a rate limit before all its services, latency, hosts that do one thing after the other, and an
//! outage at the beginning.

use super::clock::{Chance, Micros, SECOND, micros};
use std::time::Duration;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Login,
    Server,
    Volume,
    Mapping,
    Note,
    Attach,
    EndNote,
}

impl Ask {
    pub fn is_read(self) -> bool {
        matches!(self, Self::Server | Self::Volume | Self::Mapping)
    }

    /// Of a read and a login it does no harm if they are done twice.
    pub fn is_repeatable(self) -> bool {
        self.is_read() || self == Self::Login
    }

    pub fn service(self) -> &'static str {
        match self {
            Self::Login => "Keystone",
            Self::Server | Self::Mapping | Self::Attach => "Nova",
            Self::Volume | Self::Note | Self::EndNote => "Cinder",
        }
    }
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Done,
    Volume(Phase),
    /// The token has ended.
    Unauthorized,
    /// The rate limit: 429, with a `Retry-After`.
    Full(Duration),
    /// The connection is refused.
    NotReached,
    /// No answer within the time that it may take.
    TimedOut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Free,
    Attaching,
    Attached,
}

#[derive(Debug, Clone, Copy)]
pub struct CloudSetting {
    /// Requests in a second, of all machines.
    pub per_second: u32,
    pub retry_after: Duration,
    /// What a request takes beside what it waits for.
    pub latency: Duration,
    pub login: Duration,
    /// Until a host has reserved a device, which the request waits for; until it is attached then.
    pub reserve: Duration,
    pub attach: Duration,
    /// The same of the one host that is slow.
    pub slow: Duration,
    /// How long no connection is taken at first.
    pub outage: Duration,
}

/// What came in one second.
#[derive(Debug, Clone, Copy, Default)]
pub struct Second {
    pub asked: u32,
    pub refused: u32,
}

pub struct Cloud {
    setting: CloudSetting,
    room: f64,
    filled: Micros,
    /// When each host has done all that it was asked for.
    hosts: Vec<Micros>,
    /// When each volume is attached; 0 for one that was not asked for.
    volumes: Vec<Micros>,
    pub seconds: Vec<Second>,
    pub logins: u64,
    /// Attaches that were taken: more than one of a volume would be a fault.
    pub attaches: u64,
}

impl Cloud {
    pub fn new(setting: CloudSetting, nodes: usize, volumes: usize) -> Self {
        Self {
            setting,
            room: f64::from(setting.per_second),
            filled: micros(setting.outage),
            hosts: vec![0; nodes],
            volumes: vec![0; volumes],
            seconds: Vec::new(),
            logins: 0,
            attaches: 0,
        }
    }

    pub fn phase(&self, volume: usize, now: Micros) -> Phase {
        match self.volumes[volume] {
            0 => Phase::Free,
            done if done > now => Phase::Attaching,
            _ => Phase::Attached,
        }
    }

    /// Takes a request at this moment; answers when it is answered, and how.
    pub fn take(
        &mut self,
        now: Micros,
        ask: Ask,
        host: usize,
        volume: usize,
        is_token_over: bool,
        chance: &mut Chance,
    ) -> (Micros, Reply) {
        let back = micros(self.setting.outage);
        let Some(since) = now.checked_sub(back) else { return (now + 1000, Reply::NotReached) };
        let second = usize::try_from(since / SECOND).expect("a time of this century");
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        self.seconds[second].asked += 1;
        if !self.has_room(now) {
            self.seconds[second].refused += 1;
            return (now + 5000, Reply::Full(self.setting.retry_after));
        }
        let latency = micros(self.setting.latency.mul_f64(0.5 + chance.share()));
        if ask != Ask::Login && is_token_over {
            return (now + latency, Reply::Unauthorized);
        }
        match ask {
            Ask::Login => {
                self.logins += 1;
                (now + micros(self.setting.login), Reply::Done)
            }
            Ask::Volume => {
                let at = now + latency;
                (at, Reply::Volume(self.phase(volume, at)))
            }
            Ask::Attach if self.volumes[volume] == 0 => {
                let slow = if host == 0 { self.setting.slow } else { Duration::ZERO };
                let reserved = self.hosts[host].max(now) + micros(self.setting.reserve.max(slow));
                let done = reserved + micros(self.setting.attach.max(slow));
                self.hosts[host] = done;
                self.volumes[volume] = done;
                self.attaches += 1;
                (reserved + latency, Reply::Done)
            }
            _ => (now + latency, Reply::Done),
        }
    }

    fn has_room(&mut self, now: Micros) -> bool {
        let rate = f64::from(self.setting.per_second);
        #[allow(clippy::cast_precision_loss, reason = "a time of some hours")]
        let passed = now.saturating_sub(self.filled) as f64 / SECOND as f64;
        self.room = (self.room + passed * rate).min(rate);
        self.filled = now;
        let has_room = self.room >= 1.0;
        if has_room {
            self.room -= 1.0;
        }
        has_room
    }
}
