"""The page's script, which it can do without: what a pointer shows, and zoom of time."""

SCRIPT = r"""
(function(){
'use strict';
var root=document.documentElement,data=JSON.parse(document.getElementById('data').textContent);
root.classList.add('scripted');
var tip=document.createElement('div');tip.id='tip';document.body.appendChild(tip);
var bins=data.bins,from=0,span=bins.count;
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
 var rows=data.rows[svg.classList.contains('heat')?'heat':'activity'];
 function at(e){
  var p=svg.createSVGPoint();p.x=e.clientX;p.y=e.clientY;
  return p.matrixTransform(svg.getScreenCTM().inverse());
 }
 svg.addEventListener('mousemove',function(e){
  var p=at(e),bin=Math.floor(from+(p.x-left)/wide*span);
  var row=rows.find(function(r){return p.y>=r.top&&p.y<r.top+r.height;});
  if(!row||p.x<left||p.x>=left+wide||bin<0||bin>=bins.count){tip.style.display='none';return;}
  var start=bins.first+bin*bins.width,end=Math.min(start+bins.width,bins.first+bins.cycles);
  var lines=[row.name,'cycles '+text(start)+' to '+text(end-1)];
  row.series.forEach(function(s){if(s[1][bin])lines.push(s[0]+': '+text(s[1][bin]));});
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
function draw(){
 pictures.forEach(function(svg){
  var plot=svg.querySelector('svg.plot'),box=plot.getAttribute('viewBox').split(' ');
  plot.setAttribute('viewBox',from+' 0 '+span+' '+box[3]);
  var axis=svg.querySelector('.axis'),bottom=+axis.dataset.bottom;
  while(axis.firstChild)axis.removeChild(axis.firstChild);
  var first=bins.first+from*bins.width,cycles=span*bins.width,step=ticks(cycles);
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
 var next=Math.max(4,Math.min(bins.count,span*factor));
 from=Math.max(0,Math.min(bins.count-next,from+(span-next)*share));span=next;draw();
}
function move(part){from=Math.max(0,Math.min(bins.count-span,from+span*part));draw();}
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
