//! A forked child has its parent's sockets and memory, not copies of them.

use super::*;

/// Runs `work` in a forked child and returns its result; false if it did not return.
#[allow(unsafe_code)]
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: `fork` takes no pointer. Locks that other threads hold stay locked in the child. So the child runs only
    // `work`, which takes no such lock, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: `alarm` takes no pointer; it only sets a timer, whose signal ends a child that blocks for ever.
        unsafe { libc::alarm(20) };
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: `_exit` takes no pointer. It ends the child at once, without running the exit handlers and
        // destructors that belong to the parent.
        unsafe { libc::_exit(i32::from(!matches!(done, Ok(true)))) }
    }
    assert!(child > 0, "a process can be forked");
    let mut status = 0;
    // SAFETY: `status` is a live local that the call may write. `child` is an unreaped child of this process.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

#[test]
fn a_forked_child_sends_and_receives_nothing() {
    let [a, mut b] = two(&ShmOptions::default());
    let (mut a, mut far) = (Some(a), make());
    let parent = a.as_mut().expect("there");
    let [at_a, at_b, at_far] = [&*parent, &b, &far].map(|driver| [driver.local_address(TrafficClass::Data)]);
    let peer = peer(&far, far.offer().expect("there is memory"), 3);
    // A packet waits for the parent in memory and one in its socket, and the parent has one to send.
    assert_eq!(b.outbox().write_shared(TrafficClass::Data, &at_a, [b"near", &[], &[]]), 1);
    b.flush();
    far.outbox().transmit(TrafficClass::Data, &at_a, b"far");
    far.flush();
    parent.outbox().transmit(TrafficClass::Data, &at_far, b"queued");
    assert!(in_child(|| {
        let mut dead = a.take().expect("inherited");
        for (class, to) in
            [TrafficClass::Data, TrafficClass::Control].into_iter().flat_map(|class| [(class, at_b), (class, at_far)])
        {
            for len in [10, 100, LONG_BYTES] {
                let packet = vec![7; len];
                assert_eq!(dead.outbox().write_shared(class, &to, [&[], &packet, &[]]), 0);
                assert!(!dead.outbox().send_unbuffered(class, to[0], [&packet, &[], &[]]));
                dead.outbox().transmit(class, &to, &packet);
            }
        }
        dead.flush();
        assert_eq!(dead.receive(64, &mut |_, _, _, _| panic!("it is the parent's")), Received::default());
        assert_eq!(dead.receive_header_first(64, &mut |_, _, _, _| panic!("it is the parent's")), Received::default());
        let error = dead.wait(None, &[]).expect_err("it is dead");
        assert!(error.to_string().contains("in the forked child"), "{error}");
        dead.begin_incarnation(9);
        assert!(dead.attach(&peer).is_err() && dead.neighbours().is_none() && dead.offer().is_none());
        dead.detach(2);
        dead.waker().wake();
        dead.flush();
        true
    }));
    let parent = a.as_mut().expect("there");
    assert!(!parent.wait(Some(Duration::ZERO), &[]).expect("waiting works").waker, "nobody woke it");
    let near = (Origin::Memory, b"near".to_vec());
    assert_eq!(drain(parent), [near, (Origin::Network(at_far[0]), b"far".to_vec())]);
    assert_eq!(parent.outbox().write_shared(TrafficClass::Data, &at_b, [b"next", &[], &[]]), 1);
    parent.flush();
    assert_eq!(drain(&mut b), [(Origin::Memory, b"next".to_vec())]);
    assert_eq!(drain(&mut far), [(Origin::Network(at_a[0]), b"queued".to_vec())]);
    assert_eq!((b.link_stats().overruns, b.link_stats().broken, b.readers()), (0, 0, 1));
}
