#include <stdio.h>
#include <unistd.h>
#include <sys/wait.h>
#include <pthread.h>
static int fib(int n){ return n<2?n:fib(n-1)+fib(n-2); }
static void nap(void){ usleep(3000); }
static void *work(void *p){ nap(); fib(6); return 0; }
int main(void){ pthread_t t; pthread_create(&t,0,work,0); nap(); fib(4); pthread_join(t,0); if(!fork()){ nap(); _exit(0);} wait(0); printf("done\n"); return 0; }
