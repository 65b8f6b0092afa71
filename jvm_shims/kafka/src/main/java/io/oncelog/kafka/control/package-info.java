/**
 * The control plane of the sink in a process of its own, for the settings that only Java's client understands.
 *
 * <p>Python starts {@link io.oncelog.kafka.control.Main} and asks it, one JSON line a request. Each request is sent to
 * the brokers once; what an answer means, and whether to ask again, is decided in Python.
 */
package io.oncelog.kafka.control;
