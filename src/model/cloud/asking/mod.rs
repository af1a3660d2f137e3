//! How the services of a cloud are asked: how often, when again, by which login. State and a moment go in, a
//! decision comes out; the processes of one machine share the state.

pub mod again;
pub mod gate;
pub mod places;
pub mod session;
pub mod usual;
