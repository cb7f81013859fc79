package main

// callInJIT is where a call returns to in the functions of jit.c.
const callInJIT = 6
