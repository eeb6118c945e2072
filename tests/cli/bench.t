$ proem bench small.proem --dim M=4 --threads 1 | sed 's/[0-9.]* us\|p10 [0-9.]*\|p90 [0-9.]*\|[0-9]* runs/N/g'
| median N (N, N), N, 1 thread, 2 kernels
$ proem bench small.proem --dim M=4 --threads 1 --vs unfused | sed 's/[0-9.]* us\|p10 [0-9.]*\|p90 [0-9.]*\|[0-9]* runs/N/g; s/: [0-9.]*$/: N/'
| fused: median N (N, N), N, 1 thread, 2 kernels
| unfused: median N (N, N), N, 1 thread, 4 kernels
| unfused / fused: N
$ proem bench small.proem --dim M=4 --threads 1 --json | sed 's/_us": [0-9][0-9.e-]*/_us": N/g; s/"runs": [0-9]*/"runs": N/'
| {"version": 1, "median_us": N, "p10_us": N, "p90_us": N, "runs": N, "threads": 1, "unfused_us": null, "kernels": 2}
$ proem bench small.proem --dim M=4 --threads 1 --vs unfused --json | sed 's/_us": [0-9][0-9.e-]*/_us": N/g; s/"runs": [0-9]*/"runs": N/'
| {"version": 1, "median_us": N, "p10_us": N, "p90_us": N, "runs": N, "threads": 1, "unfused_us": N, "kernels": 2, "unfused_p10_us": N, "unfused_p90_us": N, "unfused_kernels": 4}
$ proem bench small.proem
2> proem: symbol M is not bound (x needs it): give its size, --dim M=..
? 2
