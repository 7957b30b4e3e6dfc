//! What is spoken with services: requests out, replies in.
