package io.oncelog.spark.blocks;

/** A part of an array. */
record Bytes(byte[] array, int start, int size) {}
