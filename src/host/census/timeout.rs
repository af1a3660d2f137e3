//! Questions that may never be answered: a process that looks at a file on a server
//! that is gone waits for ever.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long one answer is waited for. A living file system takes microseconds.
const LIMIT: Duration = Duration::from_millis(300);
/// How many may be waited for in vain before the rest is not asked any more.
const LOST: usize = 3;

/// The answers that an asker has got; nothing once it is not waited for any more.
type Tray<A> = Mutex<Option<Vec<A>>>;

/// Asks about each thing; nothing for those that did not answer. The questions are asked by other
/// threads, and one that hangs is left alone.
pub(super) fn ask<Q, A>(
    questions: Vec<Q>,
    look: impl Fn(&Q) -> A + Send + Sync + 'static,
) -> Vec<(Q, Option<A>)>
where
    Q: Clone + Send + Sync + 'static,
    A: Send + 'static,
{
    let questions = Arc::new(questions);
    let look = Arc::new(look);
    let mut answers: Vec<Option<A>> = Vec::with_capacity(questions.len());
    for _ in 0..LOST {
        let tray: Arc<Tray<A>> = Arc::new(Mutex::new(Some(Vec::new())));
        let (sender, end) = mpsc::channel::<()>();
        let (all, look, from) = (Arc::clone(&questions), Arc::clone(&look), answers.len());
        let other = Arc::clone(&tray);
        let asking = move || {
            let _until_the_end = sender;
            for question in &all[from..] {
                let answer = look(question);
                let mut tray = open(&other);
                let Some(tray) = tray.as_mut() else { return };
                tray.push(answer);
            }
        };
        if thread::Builder::new().spawn(asking).is_err() {
            break;
        }
        let mut seen = 0;
        while end.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            // One look for each limit, not one for each answer: waking up costs more than those.
            let now = open(&tray).as_ref().map_or(0, Vec::len);
            if now == seen {
                break;
            }
            seen = now;
        }
        answers.extend(open(&tray).take().unwrap_or_default().into_iter().map(Some));
        if answers.len() == questions.len() {
            break;
        }
        // It did not answer in time, or the thread died of the question.
        answers.push(None);
    }
    answers.resize_with(questions.len(), || None);
    questions.iter().cloned().zip(answers).collect()
}

fn open<A>(tray: &Tray<A>) -> MutexGuard<'_, Option<Vec<A>>> {
    tray.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn what_does_not_answer_does_not_hold_up_the_rest() {
        let begin = Instant::now();
        let slow = |question: &u32| {
            if *question == 2 {
                thread::sleep(Duration::from_secs(60));
            }
            question * 10
        };
        let answers = ask(vec![1, 2, 3], slow);
        assert_eq!(answers, [(1, Some(10)), (2, None), (3, Some(30))]);
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn after_some_that_do_not_answer_no_other_is_asked() {
        let begin = Instant::now();
        let answers = ask((0..1000).collect(), |_: &u32| thread::sleep(Duration::from_secs(60)));
        assert!(answers.iter().all(|(_, answer)| answer.is_none()));
        assert_eq!(answers.len(), 1000);
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_question_that_kills_is_none() {
        let answers = ask(vec![0_u32, 1], |question| 1_u32.checked_div(*question).unwrap());
        assert_eq!(answers, [(0, None), (1, Some(1))]);
    }
}
