//! The back-off of an adaptive client as AWS describes it: a bucket whose rate is cut to 0.7 of what was sent
//! when the service is full, and comes back by a cubic curve; beside it pauses of up to 20 s, by chance.

/// What the description gives.
const BETA: f64 = 0.7;
const CURVE: f64 = 0.4;
const SMOOTH: f64 = 0.8;
const LEAST_RATE: f64 = 0.5;

/// Attempts of one request, and the longest pause between two, in seconds.
pub const ATTEMPTS: u32 = 50;
const LONGEST: f64 = 20.0;

/// Times are seconds.
#[derive(Debug, Default)]
pub struct Bucket {
    is_on: bool,
    rate: f64,
    most: f64,
    room: f64,
    filled: f64,
    /// What was sent, in half seconds.
    sent: f64,
    sent_at: f64,
    count: f64,
    rate_before: f64,
    full_at: f64,
}

impl Bucket {
    /// How long the next request waits.
    pub fn wait(&mut self, now: f64) -> f64 {
        if !self.is_on {
            return 0.0;
        }
        self.fill(now);
        self.room -= 1.0;
        (-self.room / self.rate).max(0.0)
    }

    fn fill(&mut self, now: f64) {
        self.room = (self.room + (now - self.filled) * self.rate).min(self.most);
        self.filled = now;
    }

    pub fn answered(&mut self, is_full: bool, now: f64) {
        let half = (now * 2.0).floor() / 2.0;
        self.count += 1.0;
        if half > self.sent_at {
            let rate = self.count / (half - self.sent_at);
            self.sent = rate * SMOOTH + self.sent * (1.0 - SMOOTH);
            self.count = 0.0;
            self.sent_at = half;
        }
        let window = |before: f64| (before * (1.0 - BETA) / CURVE).cbrt();
        let rate = if is_full {
            self.rate_before = if self.is_on { self.sent.min(self.rate) } else { self.sent };
            self.full_at = now;
            self.is_on = true;
            self.rate_before * BETA
        } else {
            let since = now - self.full_at;
            CURVE * (since - window(self.rate_before)).powi(3) + self.rate_before
        };
        self.fill(now);
        self.rate = rate.min(2.0 * self.sent).max(LEAST_RATE);
        self.most = self.rate.max(1.0);
        self.room = self.room.min(self.most);
    }
}

/// The pause before the next attempt.
pub fn pause(attempt: u32, share: f64) -> f64 {
    share * f64::from(2_u32.saturating_pow(attempt)).min(LONGEST)
}
