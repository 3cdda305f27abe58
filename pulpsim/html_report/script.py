"""The page's script, which it can do without: what a pointer shows, and zoom of time.

Zoomed, the pictures are drawn anew, in columns of as few cycles as are known.
"""

SCRIPT = r"""
(function(){
'use strict';
var root=document.documentElement,data=JSON.parse(document.getElementById('data').textContent);
root.classList.add('scripted');
var tip=document.createElement('div');tip.id='tip';document.body.appendChild(tip);
var bins=data.bins,from=0,span=bins.count,group=1,isClose=false;
var left=data.left,wide=data.plot,NS='http://www.w3.org/2000/svg';
function text(n){return Math.round(n).toLocaleString('en-US');}
function place(e){
 var w=innerWidth,x=e.clientX+14,y=e.clientY+14,b=tip.getBoundingClientRect();
 if(x+b.width>w-8)x=e.clientX-b.width-14;
 if(y+b.height>innerHeight-8)y=e.clientY-b.height-14;
 tip.style.left=x+'px';tip.style.top=y+'px';
}
var pictures=document.querySelectorAll('svg.timed');
pictures.forEach(function(svg){
 var what=svg.classList.contains('heat')?'heat':'activity';
 function at(e){
  var p=svg.createSVGPoint();p.x=e.clientX;p.y=e.clientY;
  return p.matrixTransform(svg.getScreenCTM().inverse());
 }
 svg.addEventListener('mousemove',function(e){
  var p=at(e),bin=from+group*Math.floor((p.x-left)/wide*span/group);
  var rows=data.rows[what];
  var number=rows.findIndex(function(r){return p.y>=r.top&&p.y<r.top+r.height;}),row=rows[number];
  if(!row||p.x<left||p.x>=left+wide||bin<0||bin>=bins.count){tip.style.display='none';return;}
  var start=bins.first+bin*bins.width;
  var end=Math.min(start+group*bins.width,bins.first+bins.cycles);
  var lines=[row.name,'cycles '+text(start)+' to '+text(end-1)];
  row.series.forEach(function(s){var n=sum(s[1],bin);if(n)lines.push(s[0]+': '+text(n));});
  if(what==='activity'&&data.next&&number<data.next.length){
   var told=data.code[data.next[number][bin]];
   if(told){
    lines.push('next instruction: '+told[0]);
    lines.push('in '+told[1]+(told[2]?', '+told[2]:''));
   }
  }
  tip.textContent=lines.join('\n');tip.style.display='block';place(e);
 });
 svg.addEventListener('mouseleave',function(){tip.style.display='none';});
 svg.addEventListener('wheel',function(e){
  if(!e.ctrlKey&&!e.shiftKey)return;
  e.preventDefault();
  var p=at(e),share=Math.min(1,Math.max(0,(p.x-left)/wide));
  zoom((e.deltaY||e.deltaX)>0?2:0.5,share);
 },{passive:false});
});
function ticks(most){
 var raw=most/8,power=Math.pow(10,Math.floor(Math.log10(raw))),step=power;
 [1,2,5,10].some(function(f){step=power*f;return step>=raw*0.999;});
 return Math.max(1,Math.round(step));
}
function sum(values,bin){
 var n=0,end=Math.min(bin+group,bins.count);
 for(var k=bin;k<end;k++)n+=values[k];
 return n;
}
function columns(){
 var found=[];
 for(var bin=from;bin<Math.min(from+span,bins.count);bin+=group){
  found.push([bin,Math.min(group*bins.width,bins.cycles-bin*bins.width)]);
 }
 return found;
}
function path(plot,d,name){
 if(!d)return;
 var found=document.createElementNS(NS,'path');
 found.setAttribute('d',d);found.setAttribute('class',name);plot.appendChild(found);
}
function boxes(upper,lower,floor){
 var d='',n=upper.length;
 for(var k=0;k<n;){
  var high=upper[k],low=lower[k],start=k;
  while(k<n&&upper[k]===high&&lower[k]===low)k++;
  if(high>low)d+='M'+start+' '+(floor-high)+'h'+(k-start)+'v'+(high-low)+'h'+(start-k)+'z';
 }
 return d;
}
function activity(plot,seen){
 data.rows.activity.forEach(function(row){
  var rates=row.series.map(function(s){
   return seen.map(function(c){return sum(s[1],c[0])/c[1];});
  });
  var full=row.full||Math.max.apply(null,seen.map(function(c,k){
   return rates.reduce(function(n,r){return n+r[k];},0);
  }))||1;
  var told=document.querySelector('[data-peak="'+row.name+'"]');
  if(row.peak&&told)told.textContent='peak '+Number(full.toPrecision(2))+row.peak;
  var lower=seen.map(function(){return 0;}),whole=lower;
  rates.forEach(function(rate,number){
   whole=whole.map(function(n,k){return n+rate[k];});
   var upper=whole.map(function(n){return Math.round(n/full*row.height*10)/10;});
   path(plot,boxes(upper,lower,row.top+row.height),row.series[number][2]);lower=upper;
  });
 });
}
function heat(plot,seen,height){
 var top=data.heat.levels-1,rows=data.rows.heat,paths=[];
 var ground=document.createElementNS(NS,'rect');
 ground.setAttribute('y',rows[0].top);ground.setAttribute('width',seen.length);
 ground.setAttribute('height',height-rows[0].top);ground.setAttribute('class','q0');
 plot.appendChild(ground);
 rows.forEach(function(row){
  var steps=seen.map(function(c){
   var n=sum(row.series[0][1],c[0]),part=Math.sqrt(n/c[1]/data.heat.most);
   return n?Math.max(1,Math.min(top,Math.ceil(part*top-1e-9))):0;
  });
  for(var level=1;level<=top;level++){
   var is=steps.map(function(s){return s===level?row.height-1:0;});
   paths[level]=(paths[level]||'')+boxes(is,is.map(function(){return 0;}),row.top+row.height-1);
  }
 });
 paths.forEach(function(d,level){path(plot,d,'q'+level);});
}
function draw(){
 group=isClose?Math.max(1,Math.ceil(span/data.columns)):1;
 if(isClose)from=Math.floor(from/group)*group;
 var seen=columns();
 pictures.forEach(function(svg){
  var plot=svg.querySelector('svg.plot'),box=plot.getAttribute('viewBox').split(' ');
  if(isClose){
   while(plot.firstChild)plot.removeChild(plot.firstChild);
   if(svg.classList.contains('heat'))heat(plot,seen,+box[3]);else activity(plot,seen);
   plot.setAttribute('viewBox','0 0 '+span/group+' '+box[3]);
  }else plot.setAttribute('viewBox',from+' 0 '+span+' '+box[3]);
  var cycles=group*bins.width;
  document.getElementById('column').textContent=text(cycles)+(cycles===1?' cycle':' cycles');
  var axis=svg.querySelector('.axis'),bottom=+axis.dataset.bottom;
  while(axis.firstChild)axis.removeChild(axis.firstChild);
  var first=bins.first+from*bins.width;cycles=span*bins.width;var step=ticks(cycles);
  for(var c=Math.ceil(first/step)*step;c<=first+cycles;c+=step){
   var x=left+wide*(c-first)/cycles;
   var line=document.createElementNS(NS,'path');
   line.setAttribute('d','M'+x+' '+axis.dataset.top+'V'+(bottom+4));
   line.setAttribute('class','grid');axis.appendChild(line);
   var t=document.createElementNS(NS,'text');
   t.setAttribute('x',x);t.setAttribute('y',bottom+16);t.setAttribute('class','tick');
   t.setAttribute('text-anchor','middle');t.textContent=text(c);axis.appendChild(t);
  }
 });
}
function zoom(factor,share){
 var next=Math.round(Math.max(Math.min(4,bins.count),Math.min(bins.count,span*factor)));
 look(from+(span-next)*share,next);
}
function look(first,next){
 from=Math.round(Math.max(0,Math.min(bins.count-next,first)));span=next;draw();
}
function move(part){look(from+span*part,span);}
function unpack(name){
 var text=atob(document.getElementById(name).textContent),bytes=new Uint8Array(text.length);
 for(var k=0;k<text.length;k++)bytes[k]=text.charCodeAt(k);
 var stream=new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
 return new Response(stream).json();
}
if(window.DecompressionStream)unpack('fine').then(function(fine){
 var ratio=bins.width/fine.bins.width;
 fine.heat=data.heat;data=fine;bins=fine.bins;isClose=true;
 span=Math.min(bins.count,Math.round(span*ratio));
 from=Math.min(bins.count-span,Math.round(from*ratio));
 group=Math.max(1,Math.ceil(span/data.columns));
 if(span<bins.count)draw();
 root.classList.add('close');
});
document.querySelectorAll('.zoom button').forEach(function(b){
 b.addEventListener('click',function(){
  var a=b.dataset.act;
  if(a==='in')zoom(0.5,0.5);else if(a==='out')zoom(2,0.5);
  else if(a==='all')zoom(bins.count,0);else move(a==='left'?-0.5:0.5);
 });
});
})();
"""

BUTTONS = (
    '<div class="zoom"><button data-act="left">earlier</button>'
    '<button data-act="in" aria-label="closer">+</button>'
    '<button data-act="out" aria-label="further away">−</button>'
    '<button data-act="right">later</button>'
    '<button data-act="all">all</button>'
    "<span>zoom of both pictures over time, or Shift and wheel</span></div>"
)
